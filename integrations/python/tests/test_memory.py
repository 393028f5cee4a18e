"""Memory of domains: bounds, lives, and a domain that changes it."""

from pathlib import Path
from typing import Callable

import pytest

import sfi

PLUGIN = """
char text[16] = "domain's own";
const char constant[8] = "const";
int counter;
void change(void) { text[0] ^= 1; }
int crash(void) { return *(volatile int *)0 = 1; }
void host_look(char *);
void show(void) { host_look(text); }
"""
Build = Callable[..., sfi.World]


def test_reads_and_writes_are_bounded(build: Build) -> None:
    world = build(PLUGIN, 'host_look = { host = "look" }', [sfi.HostFunction("void look(u64 p)", print)])
    memory = world.memory("plugin")
    text = memory.symbol("text")
    assert memory.read(text, 6) == b"domain" and memory.string(text) == b"domain's own"
    memory.write(text, bytearray(b"D"))
    assert memory.string(text) == b"Domain's own"
    for pointer, length in [(0, 1), (text, 1 << 40), (text, (1 << 63) - 1), (1 << 32, 0), (0x10, 8)]:
        with pytest.raises(sfi.BoundsError) as caught:
            memory.read(pointer, length)
        assert caught.value.code == "bounds"
    with pytest.raises(IndexError):
        memory.write(memory.symbol("constant"), b"x")
    with pytest.raises(sfi.BoundsError):
        memory.string(text, 5)
    with pytest.raises(sfi.NotFoundError):
        memory.symbol("absent")
    with pytest.raises(OverflowError):
        memory.read(-1, 4)
    # The upper half of a pointer does not count, as for the domain's own stores.
    assert memory.read(text & 0xFFFF_FFFF, 6) == b"Domain"


def test_a_view_shows_what_is_there_now(build: Build) -> None:
    world = build(PLUGIN, 'host_look = { host = "look" }', [sfi.HostFunction("void look(u64 p)", print)])
    memory, change = world.memory("plugin"), world.function("plugin", "void change()")
    view = memory.view(memory.symbol("text"), 6)
    assert len(view) == 6 and view[0] == ord("d") and view[-1] == ord("n") and view[1:3] == b"om"
    change()
    assert view[0] == ord("e") and bytes(view) == b"eomain"
    view[0], view[4:6] = 0x58, b"YZ"
    assert memory.read(view.pointer, 7) == b"XomaYZ'"
    for index in (6, -7):
        with pytest.raises(IndexError):
            view[index]
    for key, value in [(slice(0, 2), b"x"), (slice(0, 6, 2), b"xyz"), (0, 256)]:
        with pytest.raises((ValueError, OverflowError)):
            view[key] = value  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        del view[0]
    with pytest.raises(sfi.BoundsError):
        memory.view(memory.symbol("text"), 1 << 31)


def test_a_view_ends_with_the_life_of_its_domain(build: Build) -> None:
    world = build(PLUGIN, 'host_look = { host = "look" }', [sfi.HostFunction("void look(u64 p)", print)])
    memory = world.memory("plugin")
    view = memory.view(memory.symbol("text"), 6)
    with pytest.raises(sfi.FaultError):
        world.function("plugin", "i32 crash()")()
    # A dead domain's memory stays, to be looked at.
    assert bytes(view) == b"domain"
    world.restart("plugin")
    for use in (lambda: bytes(view), lambda: view[0], lambda: view[0:2]):
        with pytest.raises(sfi.GoneError) as caught:
            use()
        assert caught.value.code == "gone"
    with pytest.raises(sfi.GoneError):
        view[0] = 1
    again = memory.view(memory.symbol("text"), 6)
    world.reload("plugin")
    with pytest.raises(sfi.GoneError):
        bytes(again)


def test_regions_are_shared(build: Build, tmp_path: Path) -> None:
    source = "extern char area[]; int first(void) { return area[0]; } void put(int x) { area[1] = x; }"
    lines = 'shared = { area = { region = "exchange" } }\n[regions]\nexchange = 4096'
    world = build(source, lines=lines)
    region = world.region("exchange")
    assert len(region) == 4096
    region.write(0, b"A")
    assert world.function("plugin", "i32 first()")() == ord("A")
    world.function("plugin", "void put(i32 x)")(66)
    assert region.read(0, 2) == b"AB"
    for offset, length in [(4096, 1), (0, 4097), (1 << 62, 8)]:
        with pytest.raises(sfi.BoundsError):
            region.read(offset, length)
    with pytest.raises(sfi.BoundsError):
        region.write(4090, b"1234567")
    with pytest.raises(sfi.NotFoundError):
        world.region("other")
