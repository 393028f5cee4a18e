"""Host functions that are Python callables."""

import threading
from typing import Any, Callable, Dict, List

import pytest

import sfi

PLUGIN = """
#include <stddef.h>
long host_add(long a, double b, unsigned char c);
int host_upper(char *text, unsigned long size);
int host_each(int (*function)(int), int from);
long host_call(long x);
extern int __sfi_error;
double run_add(void) { return host_add(-3, 2.5, 255); }
char last[8];
int run_upper(unsigned long size) { char text[8] = "abcdefg"; int r = host_upper(text, size);
    for (int i = 0; i < 8; i++) last[i] = text[i]; return r; }
int wild_upper(void) { return host_upper((char *)64, 8); }
int twice(int x) { return 2 * x; }
int run_each(void) { return host_each(twice, 20); }
int wild_each(void) { return host_each((int (*)(int))16, 20); }
long run_call(long x) { return host_call(x) + 1; }
int error(void) { return __sfi_error; }
long apply(long (*function)(long, long), long x) { return function(x, 2); }
"""
IMPORTS = """
host_add = { host = "add", signature = "(int, float, int) -> int" },
host_upper = { host = "upper", signature = "(int, int) -> int" },
host_each = { host = "each", signature = "(int, int) -> int" },
host_call = { host = "call", signature = "(int) -> int", on_fault = -5 }
""".replace("\n", " ")
Build = Callable[..., sfi.World]


class Host:
    """The host functions, and what they saw."""

    def __init__(self, build: Build) -> None:
        self.seen: List[Any] = []
        self.calls: List[sfi.Call] = []
        self.answer: Callable[[sfi.Call, int], Any] = lambda call, x: x

        def add(a: int, b: float, c: int) -> int:
            self.seen.append((a, b, c))
            return 7

        def upper(text: bytearray, size: int) -> int:
            self.seen.append(bytes(text))
            text[:] = text.upper()
            return size

        def each(call: sfi.Call, pointer: int, start: int) -> int:
            self.calls.append(call)
            return int(call.invoke(pointer, "i32 each(i32 x)", start)) + 2

        def answer(call: sfi.Call, x: int) -> Any:
            return self.answer(call, x)

        functions = [
            sfi.HostFunction("i64 add(i64 a, f64 b, u8 c)", add),
            sfi.HostFunction("i32 upper(inout u8 text[size], u64 size)", upper),
            sfi.HostFunction("i32 each(u64 pointer, i32 start)", each, call=True),
            sfi.HostFunction("i64 call(i64 x)", answer, call=True),
        ]
        self.world = build(PLUGIN, IMPORTS, functions, lines="callbacks = 4")

    def run(self, declaration: str, *arguments: Any) -> Any:
        return self.world.function("plugin", declaration)(*arguments)


@pytest.fixture
def host(build: Build) -> Host:
    return Host(build)


def test_values_and_buffers_cross(host: Host) -> None:
    assert host.run("f64 run_add()") == 7.0
    assert host.run("i32 run_upper(u64 size)", 3) == 3
    assert host.seen == [(-3, 2.5, 255), b"abc"]
    memory = host.world.memory("plugin")
    assert memory.string(memory.symbol("last")) == b"ABCdefg"


def test_hostile_pointers_never_reach_the_callable(host: Host) -> None:
    assert host.run("i32 wild_upper()") == -1
    assert host.run("i32 run_upper(u64 size)", 1 << 40) == -1
    assert host.run("i32 run_upper(u64 size)", (1 << 64) - 1) == -1
    assert host.seen == []
    with pytest.raises(sfi.GoneError, match="no function"):
        host.run("i32 wild_each()")


def test_functions_of_the_caller_can_be_called(host: Host) -> None:
    assert host.run("i32 run_each()") == 42
    with pytest.raises(sfi.InUseError):
        host.calls[0].read(0, 1)


def test_an_exception_passes_through_and_ends_the_domain(host: Host) -> None:
    def answer(call: sfi.Call, x: int) -> Any:
        raise KeyError("mine")

    host.answer = answer
    with pytest.raises(KeyError, match="mine"):
        host.run("i64 run_call(i64 x)", 1)
    assert host.world.is_dead("plugin")
    host.world.restart("plugin")
    host.answer = lambda call, x: 2**63
    with pytest.raises(OverflowError):
        host.run("i64 run_call(i64 x)", 1)


def test_a_host_error_is_for_the_domain(host: Host) -> None:
    def answer(call: sfi.Call, x: int) -> Any:
        raise sfi.HostError("not for you")

    host.answer = answer
    assert host.run("i64 run_call(i64 x)", 1) == -4
    assert host.run("i32 error()") != 0 and not host.world.is_dead("plugin")


def test_the_call_opens_the_caller_only_and_only_meanwhile(host: Host) -> None:
    memory = host.world.memory("plugin")
    text = memory.symbol("last")
    kept: Dict[str, Any] = {}

    def answer(call: sfi.Call, x: int) -> int:
        kept["call"] = call
        call.write(text, b"inside\0")
        assert call.caller == "plugin" and call.string(text) == b"inside" and call.read(text, 2) == b"in"
        with pytest.raises(sfi.BoundsError):
            call.read(1, 1)

        def elsewhere() -> None:
            with pytest.raises(sfi.InUseError):
                call.read(text, 1)
            with pytest.raises(sfi.InUseError):
                host.world.memory("plugin")
            kept["elsewhere"] = True

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        # The world is open within the function too, for calls and for the caller's memory.
        assert memory.read(text, 6) == b"inside"
        assert host.run("i32 error()") == 0
        refused: List[Callable[[], Any]] = [
            lambda: host.world.restart("plugin"),
            lambda: host.world.close(),
            lambda: host.world.domains,
        ]
        for use in refused:
            with pytest.raises(sfi.InUseError):
                use()
        return x + 1

    host.answer = answer
    assert host.run("i64 run_call(i64 x)", 40) == 42
    assert kept["elsewhere"]
    with pytest.raises(sfi.InUseError):
        kept["call"].read(text, 1)
    with pytest.raises(sfi.InUseError):
        kept["call"].write(text, b"x")


def test_nested_calls_and_exceptions(host: Host) -> None:
    depth: List[int] = []

    def answer(call: sfi.Call, x: int) -> int:
        depth.append(x)
        if x == 3:
            raise ValueError("deep")
        # A host function that runs already is refused, so the nested call goes elsewhere.
        return int(host.run("i32 run_each()"))

    host.answer = answer
    assert host.run("i64 run_call(i64 x)", 1) == 43
    with pytest.raises(ValueError, match="deep"):
        host.run("i64 run_call(i64 x)", 3)
    assert depth == [1, 3]


def test_functions_are_lent_and_taken_back(host: Host) -> None:
    seen: List[Any] = []

    @sfi.host_function("i64 multiply(i64 a, i64 b)")
    def multiply(a: int, b: int) -> int:
        seen.append((a, b))
        return a * b

    pointer = host.world.lend("plugin", multiply)
    apply = host.world.function("plugin", "i64 apply(fn(i64, i64) -> i64 function, i64 x)")
    assert apply(pointer, 21) == 42 and multiply(3, 4) == 12
    host.world.take_back("plugin", "multiply")
    assert apply(pointer, 21) == -1
    assert seen == [(21, 2), (3, 4)]
    with pytest.raises(TypeError):
        host.world.lend("plugin", sfi.HostFunction("i64 f(in u8 a[2])", print))
    assert (multiply.name, multiply.signature) == ("multiply", "(int, int) -> int")


def test_grants_must_match(build: Build) -> None:
    source = "long host_add(long a); long run(void) { return host_add(1); }"
    with pytest.raises(sfi.LoadError, match="offers no function"):
        build(source, 'host_add = { host = "add", signature = "(int) -> int" }')
    with pytest.raises(TypeError):
        sfi.HostFunction("i64 add(i64 a)", 5)  # type: ignore[arg-type]
    with pytest.raises(sfi.InvalidError):
        sfi.HostFunction("add", print)
