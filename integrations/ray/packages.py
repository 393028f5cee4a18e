"""The static archives of binary packages, and the units of work that they are cut into.

Packages are not installed and not unpacked to files: archives are read from the package's stream.
"""

import hashlib
import os
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

import sfi

# Larger archives are left out. None of a distribution's is as large.
MOST_ARCHIVE = 2 << 30
# The bytes of objects in a unit.
UNIT = 4 << 20


@dataclass(frozen=True)
class Unit:
    """Some members of an archive: the work of one task."""

    archive: str
    first: int
    count: int

    def halves(self) -> List["Unit"]:
        """Cuts the unit in two."""
        half = self.count // 2
        return [Unit(self.archive, self.first, half), Unit(self.archive, self.first + half, self.count - half)]


@dataclass
class Plan:
    """A package and its units."""

    source: str
    package: str
    version: str
    digest: str
    bytes: int
    # Processor time of fetching and reading the package, by this process and its children.
    seconds: float
    units: List[Unit] = field(default_factory=list)
    # Archives that could not be read, with the reasons.
    unreadable: Dict[str, str] = field(default_factory=dict)


def cache() -> Path:
    """Returns this user's folder of packages on this machine."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "sfi-fleet"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def fetch(source: str, digest: Optional[str] = None) -> Path:
    """Returns the package file of a source: a .deb, or the name of a package that apt knows."""
    if source.endswith(".deb"):
        return Path(source)
    for path in sorted(cache().glob(f"{source}_*.deb")):
        if digest is None or sha256(path) == digest:
            return path
    with tempfile.TemporaryDirectory(dir=cache()) as folder:
        command = ["apt-get", "download", "-qq", "-oAPT::Sandbox::User=root", source]
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"cannot fetch `{source}`: {done.stderr.strip()[:500]}")
        [path] = Path(folder).glob("*.deb")
        # Another task of this machine may have been faster.
        return path.replace(cache() / path.name)


def sha256(path: Path) -> str:
    """Returns the digest of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def archives(package: Path, only: Optional[str] = None) -> Iterator[Tuple[str, bytes]]:
    """Yields name and bytes of each static archive of a package. Links are no archives."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
                for member in tar:
                    name = member.name[2:] if member.name.startswith("./") else member.name
                    wanted = member.isfile() and name.endswith(".a") and member.size <= MOST_ARCHIVE
                    if not wanted or only not in (None, name):
                        continue
                    file = tar.extractfile(member)
                    if file is not None:
                        yield name, file.read()
        finally:
            process.stdout.close()
            process.kill()


def described(package: Path) -> Tuple[str, str]:
    """Returns name and version of a package."""
    fields = subprocess.run(
        ["dpkg-deb", "--field", package, "Package", "Version"], capture_output=True, text=True, check=True
    ).stdout
    values = dict(line.split(": ", 1) for line in fields.splitlines() if ": " in line)
    return values["Package"], values["Version"]


def units(archive: str, sizes: List[int]) -> Iterator[Unit]:
    """Cuts an archive into units of about equal size."""
    first, size = 0, 0
    for number, length in enumerate(sizes):
        if number > first and size + length > UNIT:
            yield Unit(archive, first, number - first)
            first, size = number, 0
        size += length
    if len(sizes) > first:
        yield Unit(archive, first, len(sizes) - first)


def processor_seconds() -> float:
    """Returns the processor time of this process and of its children that ended."""
    return sum(os.times()[:4])


def plan(source: str) -> Plan:
    """Fetches a package and cuts its archives into units."""
    start = processor_seconds()
    path = fetch(source)
    package, version = described(path)
    made = Plan(source, package, version, sha256(path), path.stat().st_size, 0.0)
    for archive, data in archives(path):
        try:
            sizes = [len(member) for _, member in sfi.members(data)]
        except sfi.Error as error:
            made.unreadable[archive] = str(error)
            continue
        made.units.extend(units(archive, sizes))
    made.seconds = processor_seconds() - start
    return made
