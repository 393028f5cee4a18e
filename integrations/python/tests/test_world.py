"""Worlds: calls, faults, limits, threads, lives."""

import gc
import threading
import time
from pathlib import Path
from typing import Any, Callable, List

import pytest
from conftest import compiled

import sfi

PLUGIN = """
long add(long a, long b) { return a + b; }
int narrow(signed char a, unsigned char b) { return a + b; }
double mean(double a, float b) { return (a + b) / 2; }
void nothing(void) {}
unsigned long big(unsigned long a) { return a + 1; }
long sum(const int *values, unsigned long count)
{
    long sum = 0;
    for (unsigned long i = 0; i < count; i++)
        sum += values[i];
    return sum;
}
int twice(unsigned char *bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++)
        bytes[i] *= 2;
    return -1;
}
void fill(unsigned char *bytes, unsigned long count) { for (unsigned long i = 0; i < count; i++) bytes[i] += 7; }
int crash(int *where)
{
    return *(volatile int *)where = 1;
}
int spin(void) { for (;;) __asm__ volatile (""); }
int counter = 40;
int next(void) { return ++counter; }
char text[16] = "domain's own";
"""
# The line of the store.
CRASH = PLUGIN[: PLUGIN.index("where = 1")].count("\n") + 1
Build = Callable[..., sfi.World]


def test_numbers_cross_with_their_types(build: Build) -> None:
    world = build(PLUGIN)
    add = world.function("plugin", "i64 add(i64 a, i64 b)")
    assert add(40, 2) == 42 and add(-1, -(2**62)) == -(2**62) - 1
    assert world.function("plugin", "i32 narrow(i8 a, u8 b)")(-128, 255) == 127
    assert world.function("plugin", "f64 mean(f64 a, f32 b)")(1, 2.5) == 1.75
    assert world.function("plugin", "void nothing()")() is None
    assert world.function("plugin", "u64 big(u64 a)")(2**64 - 2) == 2**64 - 1
    assert world.function("plugin", "i8 big(u64 a)")(0x17F) == -128
    assert world.domains == ["plugin"]
    assert add.domain == "plugin" and add.declaration == "i64 add(i64 a, i64 b)"


def test_wrong_arguments_are_exceptions(build: Build) -> None:
    world = build(PLUGIN)
    narrow = world.function("plugin", "i32 narrow(i8 a, u8 b)")
    for arguments in [(128, 0), (-129, 0), (0, 256), (0, -1)]:
        with pytest.raises(OverflowError):
            narrow(*arguments)
    with pytest.raises(TypeError, match="takes 2 arguments, 1 were given"):
        narrow(1)
    with pytest.raises(TypeError):
        narrow("1", 2)
    with pytest.raises(sfi.NotFoundError):
        world.function("plugin", "void absent()")
    with pytest.raises(LookupError):
        world.function("other", "void nothing()")
    with pytest.raises(sfi.InvalidError) as caught:
        world.function("plugin", "int add(int, int)")
    assert caught.value.code == "invalid"


def test_buffers_cross_by_copy(build: Build) -> None:
    world = build(PLUGIN)
    total = world.function("plugin", "i64 sum(in i32 values[count], u64 count)")
    values = memoryview(b"".join(n.to_bytes(4, "little") for n in range(100))).cast("i")
    assert total(values, 100) == 4950 and total(values, 3) == 3
    with pytest.raises(sfi.CallError) as caught:
        total(values, 101)
    assert caught.value.code == "arguments"
    twice = world.function("plugin", "i32 twice(inout u8 bytes[count], u64 count)")
    data = bytearray(range(10))
    assert twice(data, 9) == -1
    assert data == bytes([*(2 * n for n in range(9)), 9])
    data.append(0)
    with pytest.raises(TypeError, match="read-only"):
        twice(bytes(10), 10)
    fill = world.function("plugin", "void fill(out u8 bytes[count], u64 count)")
    data = bytearray(b"secret-and-longer")
    fill(data, 6)
    assert data == b"\7\7\7\7\7\7-and-longer"


def test_a_fault_tells_its_place_and_kills_the_domain(build: Build) -> None:
    world = build(PLUGIN)
    crash = world.function("plugin", "i32 crash(u64 where)")
    assert not world.is_dead("plugin") and world.last_fault("plugin") is None
    with pytest.raises(sfi.FaultError) as caught:
        crash(0x1000)
    error = caught.value
    assert (error.code, error.domain, error.function) == ("fault", "plugin", "crash")
    assert error.file is not None and error.file.endswith("plugin.c") and error.line == CRASH
    assert error.backtrace is not None and "host" in error.backtrace
    assert "0x7" not in str(error), "the places of domains are secrets"
    with pytest.raises(sfi.DeadError):
        crash(0)
    last = world.last_fault("plugin")
    assert isinstance(last, sfi.FaultError) and last.line == CRASH and world.is_dead("plugin")
    world.restart("plugin")
    assert world.function("plugin", "i64 add(i64 a, i64 b)")(1, 2) == 3
    with pytest.raises(sfi.FaultError):
        crash(0x1000)


def test_limits_end_calls(build: Build) -> None:
    world = build(PLUGIN, time_limit=20)
    spin = world.function("plugin", "i32 spin()")
    start = time.monotonic()
    with pytest.raises(sfi.LimitError) as caught:
        spin(time_limit=0.2)
    assert caught.value.code == "time" and time.monotonic() - start < 15
    world.restart("plugin")
    with pytest.raises(sfi.LimitError):
        spin(cpu_limit=0.2)
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError):
            spin(time_limit=wrong)
    untimed = build(PLUGIN)
    with pytest.raises(sfi.CallError) as refused:
        untimed.function("plugin", "i32 spin()")(time_limit=0.2)
    assert refused.value.code == "untimed"


def test_other_threads_run_during_a_call_and_are_refused(build: Build) -> None:
    world = build(PLUGIN, time_limit=30)
    spin, add = world.function("plugin", "i32 spin()"), world.function("plugin", "i64 add(i64 a, i64 b)")
    ended: List[Exception] = []

    def run() -> None:
        try:
            spin(time_limit=1.5)
        except sfi.LimitError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    refused = 0
    while thread.is_alive():
        try:
            add(1, 2)
        except sfi.InUseError as error:
            assert error.code == "in-use"
            refused += 1
        except sfi.DeadError:
            break
        time.sleep(0.01)
    thread.join()
    assert refused > 0 and len(ended) == 1


def test_threads_wait_if_the_host_says_so(build: Build) -> None:
    world = build(PLUGIN, threads="wait")
    following = world.function("plugin", "i32 next()")
    results: List[int] = []

    def run() -> None:
        for _ in range(200):
            results.append(following())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(41, 841))
    with pytest.raises(ValueError):
        build(PLUGIN, threads="perhaps")


def test_a_closed_world_is_of_no_use(build: Build) -> None:
    with build(PLUGIN) as world:
        add = world.function("plugin", "i64 add(i64 a, i64 b)")
        memory = world.memory("plugin")
        view = memory.view(memory.symbol("text"), 4)
        assert add(1, 2) == 3 and bytes(view) == b"doma"
    uses: List[Callable[[], Any]] = [
        lambda: add(1, 2),
        lambda: bytes(view),
        lambda: world.restart("plugin"),
        lambda: world.domains,
    ]
    for use in uses:
        with pytest.raises(sfi.ClosedError):
            use()
    world.close()


def test_a_world_loads_from_a_file_and_again(build: Build, tmp_path: Path) -> None:
    build(PLUGIN)
    manifest = tmp_path / "domains.toml"
    manifest.write_text('[domains.plugin]\nobjects = ["plugin.sfi.o"]\n')
    world = sfi.World(manifest)
    following = world.function("plugin", "i32 next()")
    assert following() == 41 and following() == 42
    world.reload("plugin")
    assert following() == 41
    other = sfi.rewrite(compiled("int next(void) { return 7; }", tmp_path)).data
    world.reload("plugin", other)
    assert following() == 7
    with pytest.raises(sfi.LoadError):
        world.reload("plugin", compiled("int f(int *p) { return *p = 1; }", tmp_path))
    assert following() == 7
    with pytest.raises(sfi.LoadError) as caught:
        sfi.World(tmp_path / "absent.toml")
    assert caught.value.code == "load"
    manifest.write_text('[domains.plugin]\nobject = ["plugin.sfi.o"]\n')
    with pytest.raises(sfi.LoadError):
        sfi.World(str(manifest))


def test_unverified_objects_do_not_load(build: Build, tmp_path: Path) -> None:
    (tmp_path / "raw.o").write_bytes(compiled(PLUGIN, tmp_path))
    with pytest.raises(sfi.LoadError, match="rewrite"):
        sfi.World.from_text('[domains.plugin]\nobjects = ["raw.o"]\n', directory=tmp_path)


def test_a_libc_s_exit_ends_its_domain_only(build: Build, tmp_path: Path) -> None:
    libc = sfi.rewrite(Path("/usr/lib/x86_64-linux-musl/libc.a").read_bytes(), skip_refused=True)
    (tmp_path / "libc.a").write_bytes(libc.data)
    source = """
        #include <stdlib.h>
        #include <string.h>
        unsigned long fill(unsigned long size) { char *p = malloc(size); memset(p, 'x', size); return (unsigned long)p; }
        int leave(void) { exit(23); }
    """
    world = build(source, lines='archives = ["libc.a"]\nsyscalls.allow = ["memory", "exit"]')
    memory = world.memory("plugin")
    pointer = world.function("plugin", "u64 fill(u64 size)")(1000)
    assert memory.read(pointer, 1000) == b"x" * 1000
    with pytest.raises(sfi.ExitError) as caught:
        world.function("plugin", "i32 leave()")()
    assert caught.value.status == 23


def test_garbage_is_collected(build: Build) -> None:
    def maps() -> int:
        gc.collect()
        return len(Path("/proc/self/maps").read_text().splitlines())

    build(PLUGIN).close()
    before = maps()
    for _ in range(5):
        build(PLUGIN)
        build(PLUGIN).close()
    assert maps() < before + 20

