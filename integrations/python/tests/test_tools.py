"""Rewriting and verifying."""

import subprocess
from pathlib import Path

import pytest
from conftest import compiled

import sfi

PLUGIN = """
int scribble(unsigned long address) { *(volatile int *)address = 42; return 0; }
int main_of_plugin(void) { return scribble(0xdead0); }
"""


def test_a_compiler_s_object_is_refused_with_its_place(tmp_path: Path) -> None:
    [verdict] = sfi.verify(compiled(PLUGIN, tmp_path), name="plugin.o")
    assert not verdict.safe and verdict.error is None and verdict.name == "plugin.o"
    first = verdict.violations[0]
    assert first.rule == "SFI-S01" and first.function is not None and "scribble" in first.function
    assert first.file is not None and first.file.endswith("plugin.c") and first.line == 2
    assert first.instruction is not None and first.section == ".text"


@pytest.mark.parametrize("mode", ["write", "full"])
def test_a_rewritten_object_is_safe(tmp_path: Path, mode: str) -> None:
    done = sfi.rewrite(bytearray(compiled(PLUGIN, tmp_path)), mode=mode)
    [verdict] = sfi.verify(memoryview(done.data), mode=mode)
    assert verdict.safe and verdict.violations == [] and verdict.instructions > 5
    assert done.refused == []


def test_other_modes_and_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="neither|none|mode"):
        sfi.verify(b"", mode="maybe")
    [verdict] = sfi.verify(b"not an object")
    assert not verdict.safe and verdict.error == "not an ELF file"
    with pytest.raises(sfi.RewriteError) as caught:
        sfi.rewrite(b"not an object")
    assert [refusal.reason for refusal in caught.value.refusals] == ["SFI-W01"]
    with pytest.raises(sfi.InvalidError):
        sfi.members(b"!<arch>\n" + b"x" * 70)
    with pytest.raises(TypeError):
        sfi.verify(5)


def test_archives_keep_their_members(tmp_path: Path) -> None:
    (tmp_path / "good.o").write_bytes(compiled(PLUGIN, tmp_path))
    (tmp_path / "bad.s").write_text(".globl f\n.type f, @function\nf: fxsave (%rdi)\n ret\n")
    subprocess.run(["gcc", "-c", "bad.s", "-o", "bad.o"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "cr", "both.a", "good.o", "bad.o"], cwd=tmp_path, check=True)
    archive = (tmp_path / "both.a").read_bytes()
    assert [name for name, _ in sfi.members(archive)] == ["good.o", "bad.o"]
    with pytest.raises(sfi.RewriteError) as caught:
        sfi.rewrite(archive)
    assert {(r.object, r.reason) for r in caught.value.refusals} == {("bad.o", "SFI-W03")}
    done = sfi.rewrite(archive, skip_refused=True)
    assert [name for name, _ in sfi.members(done.data)] == ["good.o"]
    assert [(r.object, r.function) for r in done.refused] == [("bad.o", "f")]
    assert all(verdict.safe for verdict in sfi.verify(done.data))
    assert sfi.reasons()["SFI-W03"] == done.refused[0].title
