"""The exceptions of this package.

Every one has a `code`, a short text that does not change. Those of a fault tell its place as far as
the object's debug information does. Names and lines are the word of the object's author.
"""

from typing import List, Optional

from ._sfi import Refusal


class Error(Exception):
    """The base of all exceptions of this package."""

    code: str
    domain: Optional[str]
    function: Optional[str]
    offset: Optional[int]
    file: Optional[str]
    line: Optional[int]
    backtrace: Optional[str]

    def __init__(
        self,
        message: str = "",
        *,
        code: str = "error",
        domain: Optional[str] = None,
        function: Optional[str] = None,
        offset: Optional[int] = None,
        file: Optional[str] = None,
        line: Optional[int] = None,
        backtrace: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.domain = domain
        self.function = function
        self.offset = offset
        self.file = file
        self.line = line
        self.backtrace = backtrace


class CallError(Error):
    """A call did not return: its code is `arguments`, `refused` or `untimed`, or a subclass's."""


class FaultError(CallError):
    """The domain faulted. It is dead until it is restarted."""


class LimitError(CallError):
    """The call took longer than its limit allows. The domain is dead."""


class ExitError(CallError):
    """The domain ended itself with an exit status. It is dead."""

    status: int

    def __init__(
        self,
        message: str = "",
        *,
        code: str = "exit",
        status: int = 0,
        domain: Optional[str] = None,
        function: Optional[str] = None,
        offset: Optional[int] = None,
        file: Optional[str] = None,
        line: Optional[int] = None,
        backtrace: Optional[str] = None,
    ) -> None:
        super().__init__(
            message,
            code=code,
            domain=domain,
            function=function,
            offset=offset,
            file=file,
            line=line,
            backtrace=backtrace,
        )
        self.status = status


class DeadError(CallError):
    """The domain is dead since an earlier fault, or waits for its owner's penalties."""


class GoneError(CallError):
    """The function or the view belongs to an earlier life of the domain."""


class NotFoundError(Error, LookupError):
    """There is no such domain, function, variable or region."""


class LoadError(Error):
    """The manifest, an object or a connection cannot be used."""


class BoundsError(Error, IndexError):
    """The range is not memory of the domain, or the domain may not write there."""


class InvalidError(Error, ValueError):
    """A declaration, or the bytes of an object or archive, cannot be read."""


class InUseError(Error):
    """Another thread uses the world, or a host function that is not the innermost one."""


class ClosedError(Error):
    """The world was closed."""


class RewriteError(Error):
    """An object cannot be rewritten."""

    refusals: List[Refusal]


class HostError(Error):
    """For host functions to raise: the domain gets its import's `on_fault` value and goes on."""
