"""Decodes PNG files with the distribution's libpng, which nobody has to trust.

    python codec.py picture.png

The example rewrites the static libraries of libpng, zlib and musl, and loads them with `png.c` into
a domain. A mistake in any of them can spoil the picture, and nothing else.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Tuple

import sfi

LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
LIBC = Path("/usr/lib/x86_64-linux-musl/libc.a")
# The most bytes of a file and of its pixels.
FILE, PIXELS = 8 << 20, 32 << 20

MANIFEST = """
[domains.codec]
objects = ["png.o"]
archives = ["libpng16.a", "libz.a", "libc.a"]
stack = "64 MiB"               # files and pixels cross by copy, on the domain's stack
memory = "64 MiB"
syscalls.allow = ["memory"]
"""


def build(folder: Path) -> None:
    """Compiles the codec, and rewrites it and its libraries."""
    source = Path(__file__).with_name("png.c")
    plain = folder / "plain.o"
    subprocess.run(["gcc", "-O2", "-g", "-c", source, "-o", plain], check=True)
    (folder / "png.o").write_bytes(sfi.rewrite(plain.read_bytes()).data)
    for library in (LIBRARIES / "libpng16.a", LIBRARIES / "libz.a", LIBC):
        rewritten = sfi.rewrite(library.read_bytes(), skip_refused=True)
        (folder / library.name).write_bytes(rewritten.data)


class Codec:
    """A decoder in a domain. A file that breaks it costs a restart."""

    def __init__(self, folder: Path) -> None:
        self.world = sfi.World.from_text(MANIFEST, directory=folder, time_limit=10)
        declaration = (
            "i32 decode(in u8 file[length], u64 length, out u8 pixels[room], u64 room, out u32 size[2])"
        )
        self.run = self.world.function("codec", declaration)

    def decode(self, file: bytes) -> Tuple[int, int, bytes]:
        """Returns width, height and RGBA pixels. Everything in them is the domain's word."""
        if len(file) > FILE:
            raise ValueError("the file is too large")
        pixels, size = bytearray(PIXELS), memoryview(bytearray(8)).cast("I")
        try:
            decoded = self.run(file, len(file), pixels, len(pixels), size)
        except sfi.CallError:
            self.world.restart("codec")
            raise
        width, height = size[0], size[1]
        if decoded != 1 or width * height * 4 > len(pixels):
            raise ValueError("not a PNG file, or too large")
        return width, height, bytes(pixels[: width * height * 4])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        codec = Codec(Path(folder))
        for name in sys.argv[1:]:
            width, height, pixels = codec.decode(Path(name).read_bytes())
            print(f"{name}: {width} x {height}, first pixel {tuple(pixels[:4])}")
        try:
            codec.world.function("codec", "i32 exploit(u64 address)")(0x1000)
        except sfi.FaultError as error:
            print(f"exploit: {error.domain}, {error.function}, line {error.line}: {error}")


if __name__ == "__main__":
    main()
