"""Plugins for the tests."""

import subprocess
from pathlib import Path
from typing import Any, Callable, Sequence

import pytest
from summary import pytest_terminal_summary as pytest_terminal_summary

import sfi


def compiled(source: str, folder: Path, flags: Sequence[str] = ()) -> bytes:
    """Compiles C for a domain."""
    path = folder / "plugin.c"
    path.write_text(source)
    plain = folder / "plain.o"
    subprocess.run(["gcc", "-O2", "-g", *flags, "-c", path, "-o", plain], check=True)
    return plain.read_bytes()


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., sfi.World]:
    """Makes a world with one domain `plugin` of a C source."""

    def make(source: str, imports: str = "", functions: Sequence[sfi.HostFunction] = (), **more: Any) -> sfi.World:
        (tmp_path / "plugin.sfi.o").write_bytes(sfi.rewrite(compiled(source, tmp_path)).data)
        lines = more.pop("lines", "")
        text = f'[domains.plugin]\nobjects = ["plugin.sfi.o"]\nimports = {{ {imports} }}\n{lines}\n'
        return sfi.World.from_text(text, functions, directory=tmp_path, **more)

    return make

