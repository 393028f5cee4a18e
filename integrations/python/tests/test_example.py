"""The example: Debian's libpng in a domain."""

import struct
import sys
import zlib
from pathlib import Path

import pytest

import sfi

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import codec


def png(width: int, height: int) -> bytes:
    """Makes a PNG file of red, green and blue by place."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"".join(bytes([x & 255, y & 255, x ^ y & 255]) for x in range(width)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


def test_an_untrusted_codec_decodes_and_cannot_escape(tmp_path: Path) -> None:
    codec.build(tmp_path)
    decoder = codec.Codec(tmp_path)
    width, height, pixels = decoder.decode(png(100, 50))
    assert (width, height) == (100, 50)
    place = 4 * (20 * 100 + 30)
    assert pixels[place : place + 4] == bytes([30, 20, 30 ^ 20, 255])
    good = png(64, 64)
    for wrong in (b"", b"GIF89a", good[:40], good[:200], good.replace(b"IDAT", b"IDAX")):
        with pytest.raises(ValueError):
            decoder.decode(wrong)
    # Every byte damaged in turn: the host gets a picture, an error or a fault, and goes on.
    for at in range(0, len(good), max(1, len(good) // 60)):
        try:
            decoder.decode(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :])
        except (ValueError, sfi.CallError):
            pass
    assert decoder.decode(png(2, 2))[:2] == (2, 2)
    with pytest.raises(sfi.FaultError) as caught:
        decoder.world.function("codec", "i32 exploit(u64 address)")(0x1000)
    assert caught.value.function == "exploit" and caught.value.file is not None
