"""The fleet on a local cluster of two workers, over packages that are made here."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pyarrow.parquet as pq
import pytest
from ray.cluster_utils import Cluster

import fleet
import judge
import packages
import sfi
from store import Store

FLEET = Path(__file__).with_name("fleet.py")


def package(folder: Path, name: str, archives: Dict[str, List[Path]]) -> Path:
    """Makes a package with static archives."""
    root = folder / name
    (root / "DEBIAN").mkdir(parents=True)
    control = f"Package: {name}\nVersion: 1:2.0-1\nArchitecture: amd64\nMaintainer: none <none@invalid>\nDescription: x\n"
    (root / "DEBIAN/control").write_text(control)
    (root / "usr/lib").mkdir(parents=True)
    for archive, members in archives.items():
        subprocess.run(["ar", "qc", root / "usr/lib" / archive, *members], check=True)
    (root / "usr/lib/link.a").symlink_to("/etc/passwd")
    built = folder / f"{name}.deb"
    subprocess.run(["dpkg-deb", "--build", "-Znone", root, built], check=True, stdout=subprocess.DEVNULL)
    return built


def compiled(folder: Path, name: str, source: str, *flags: str) -> Path:
    """Compiles C or assembly."""
    path = folder / name
    path.write_text(source)
    out = path.with_suffix(".o")
    subprocess.run(["gcc", "-O2", *flags, "-c", path, "-o", out], check=True)
    return out


@pytest.fixture(scope="module")
def debs(tmp_path_factory: pytest.TempPathFactory) -> List[Path]:
    """Makes two packages: one of good objects, one with some of each kind."""
    folder = tmp_path_factory.mktemp("debs")
    good = [
        compiled(folder, f"good{n}.c", f"int f{n}(int *p, int n) {{ while (n--) p[n] += {n}; return *p; }}")
        for n in range(12)
    ]
    refused = compiled(folder, "refused.s", ".globl f\n.type f, @function\nf: fxsave (%rdi)\n ret\n")
    lto = compiled(folder, "lto.c", "int x(void) { return 1; }", "-flto", "-fno-fat-lto-objects")
    text = folder / "<b>&text"
    text.write_text("no object")
    first = package(folder, "good-dev", {"libgood.a": good})
    second = package(folder, "mixed-dev", {"libmixed.a": [good[0], refused, lto, text]})
    return [first, second]


def run(out: Path, *words: Any) -> "subprocess.CompletedProcess[str]":
    """Runs the fleet to its end."""
    command = [sys.executable, FLEET, "--out", out, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_cluster_judges_every_object_and_a_run_goes_on(debs: List[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(out, *debs, "--workers", 2, "--population", 100)
    assert done.returncode == 0, done.stderr
    table = pq.read_table(out / "results.parquet")
    assert table.column_names == list(judge.COLUMNS)
    rows = {(row["package"], row["object"]): row for row in table.to_pylist()}
    assert len(rows) == table.num_rows == 16
    verdicts = {name: row["verdict"] for (owner, name), row in rows.items() if owner == "mixed-dev"}
    assert verdicts == {"good0.o": "safe", "refused.o": "refused", "lto.o": "no-object", "<b>&text": "no-object"}
    refused = rows["mixed-dev", "refused.o"]
    assert refused["rule"] == "SFI-W03" and refused["function"] == "f" and refused["text_bytes"] == 4
    safe = rows["good-dev", "good3.o"]
    assert safe["verdict"] == "safe" and safe["rewritten_text_bytes"] > 10 and safe["version"] == "1:2.0-1"
    assert safe["rewrite_seconds"] > 0 and safe["verify_seconds"] > 0 and safe["node"]
    page = (out / "index.html").read_text()
    assert "<svg" in page and "SFI-W03" in page and "hours for a GB of text" in page and "A whole distribution" in page
    assert "<b>&text" not in page
    # Everything is there: nothing is computed again, and no cluster is started.
    again = run(out, *debs, "--population", 100)
    assert again.returncode == 0 and "0 units computed" in again.stdout
    # A part that is missing is computed, and nothing else.
    parts = sorted((out / "parts").iterdir())
    parts[0].unlink()
    again = run(out, *debs, "--workers", 2)
    assert again.returncode == 0 and "1 units computed" in again.stdout, again.stderr
    assert pq.read_table(out / "results.parquet").num_rows == 16
    # A run with other settings has other results.
    assert run(out, *debs, "--mode", "full").returncode != 0


def test_another_machine_judges_a_list(debs: List[Path], tmp_path: Path) -> None:
    member = compiled(tmp_path, "small.c", "int h(int *p, int n) { while (n--) p[n] += n; return *p; }\n")
    lists = [package(tmp_path, f"small{n}-dev", {"libsmall.a": [member]}) for n in range(2)]
    listed = tmp_path / "packages.txt"
    listed.write_text("\n".join(map(str, lists)) + "\n")
    memory = {"object_store_memory": 100 << 20}
    # The first machine judges nothing: Ray gives short work to one machine alone.
    cluster = Cluster(initialize_head=True, head_node_args={**memory, "num_cpus": 0, "include_dashboard": False})
    try:
        other = cluster.add_node(**memory, num_cpus=2)
        cluster.wait_for_nodes()
        out = tmp_path / "out"
        # A package that is named and listed is judged once.
        done = run(out, "--list", listed, lists[0], debs[1], "--address", cluster.address)
    finally:
        cluster.shutdown()
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(out / "results.parquet").to_pylist()
    packages_judged = sorted(row["package"] for row in rows)
    assert packages_judged == ["mixed-dev"] * 4 + ["small0-dev", "small1-dev"]
    assert {row["node"] for row in rows} == {other.node_id}, rows
    # A list that is not there is an error, not an empty one.
    assert run(tmp_path / "none", "--list", tmp_path / "missing.txt").returncode != 0


def test_units_cover_an_archive_once() -> None:
    sizes = [packages.UNIT // 3] * 10 + [packages.UNIT * 2, 1, 1]
    units = list(packages.units("a", sizes))
    assert [unit.first for unit in units] == [0, 3, 6, 9, 10, 11]
    assert sum(unit.count for unit in units) == len(sizes)
    left, right = packages.Unit("a", 3, 5).halves()
    assert (left.first, left.count, right.first, right.count) == (3, 2, 5, 3)


def test_links_and_unreadable_archives_are_no_archives(debs: List[Path], tmp_path: Path) -> None:
    plan = packages.plan(str(debs[1]))
    assert [(unit.archive, unit.count) for unit in plan.units] == [("usr/lib/libmixed.a", 4)]
    assert plan.unreadable == {} and plan.package == "mixed-dev"
    broken = tmp_path / "libbroken.a"
    broken.write_bytes(b"!<arch>\nnonsense" + b"x" * 60)
    root = tmp_path / "broken"
    made = package(tmp_path, "broken", {})
    assert packages.plan(str(made)).units == [] and root.exists()
    (root / "usr/lib/libbroken.a").write_bytes(broken.read_bytes())
    subprocess.run(["dpkg-deb", "--build", "-Znone", root, made], check=True, stdout=subprocess.DEVNULL)
    assert list(packages.plan(str(made)).unreadable) == ["usr/lib/libbroken.a"]


def test_a_wrong_rewrite_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = compiled(tmp_path, "f.c", "int f(int *p) { return *p = 1; }").read_bytes()
    assert judge.judge(data, "write")[0] == "safe"
    real = sfi.rewrite(data)

    class Wrong:
        """The output of a rewriter that does nothing."""

        data, text_in, text_out = None, real.text_in, real.text_out

    Wrong.data = data
    monkeypatch.setattr(sfi, "rewrite", lambda *_, **__: Wrong)
    verdict, facts = judge.judge(data, "write")
    assert verdict == "violation" and facts["rule"] == "SFI-S01"


def test_a_worker_that_dies_costs_one_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["one", "deadly", "three"]
    members = [compiled(tmp_path, f"{name}.c", f"int {name}(void) {{ return 1; }}") for name in names]
    source = str(package(tmp_path, "deadly-dev", {"libdeadly.a": members}))
    real = judge.judge

    def deadly(data: bytes, mode: str) -> Any:
        if b"deadly" in data:
            os._exit(1)
        return real(data, mode)

    monkeypatch.setattr(judge, "judge", deadly)
    store = Store(tmp_path / "out", {"mode": "write", "sfi": sfi.__version__})
    fleet.connect(fleet.arguments(["--out", "unused", "--workers", "2"]))
    try:
        run = fleet.Run(store, [source], 60.0)
        run.all()
    finally:
        fleet.ray.shutdown()
    assert run.failures == []
    rows = {row["object"]: row["verdict"] for row in store.all(list(run.plans.values())).to_pylist()}
    assert rows == {"one.o": "safe", "member 2": "unfinished", "three.o": "safe"}
    # What was cut stays cut.
    again = fleet.Run(store, [source], 60.0)
    assert not again.waiting and not again.unplanned
