"""Untrusted native code inside your own process.

`rewrite` turns compiled objects into ones that obey the sandbox, `verify` proves it, and `World`
loads them into domains whose functions Python calls. README.md has examples.
"""

from typing import Any, Callable

from ._sfi import (
    Call,
    Function,
    HostFunction,
    Memory,
    Refusal,
    Region,
    Rewritten,
    Verdict,
    View,
    Violation,
    World,
    __version__,
    members,
    reasons,
    rewrite,
    verify,
)
from .errors import (
    BoundsError,
    CallError,
    ClosedError,
    DeadError,
    Error,
    ExitError,
    FaultError,
    GoneError,
    HostError,
    InUseError,
    InvalidError,
    LimitError,
    LoadError,
    NotFoundError,
    RewriteError,
)


def host_function(declaration: str, *, call: bool = False) -> Callable[[Callable[..., Any]], HostFunction]:
    """Makes a host function of a Python function, as a decorator.

    With `call`, the function's first argument is the `Call`.
    """

    def decorate(function: Callable[..., Any]) -> HostFunction:
        return HostFunction(declaration, function, call=call)

    return decorate


__all__ = [
    "BoundsError",
    "Call",
    "CallError",
    "ClosedError",
    "DeadError",
    "Error",
    "ExitError",
    "FaultError",
    "Function",
    "GoneError",
    "HostError",
    "HostFunction",
    "InUseError",
    "InvalidError",
    "LimitError",
    "LoadError",
    "Memory",
    "NotFoundError",
    "Refusal",
    "Region",
    "RewriteError",
    "Rewritten",
    "Verdict",
    "View",
    "Violation",
    "World",
    "__version__",
    "host_function",
    "members",
    "reasons",
    "rewrite",
    "verify",
]
