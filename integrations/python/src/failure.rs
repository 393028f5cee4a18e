//! Failures, and the Python exceptions that they become.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sfi_loader::interface::BadDeclaration;
use sfi_loader::manifest::ManifestError;
use sfi_loader::{BindError, BuildError, CallError, Fault, FaultKind, LookupError, MemoryError, chain};

/// A class of `sfi.errors`, and the code of its exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    class: &'static str,
    code: &'static str,
}

macro_rules! kinds {
    ($($name:ident = $class:literal, $code:literal;)*) => {
        $(pub const $name: Kind = Kind { class: $class, code: $code };)*
    };
}

kinds! {
    FAULT = "FaultError", "fault";
    TIME = "LimitError", "time";
    EXIT = "ExitError", "exit";
    DEAD = "DeadError", "dead";
    NOT_READY = "DeadError", "not-ready";
    REFUSED = "CallError", "refused";
    ARGUMENTS = "CallError", "arguments";
    UNTIMED = "CallError", "untimed";
    GONE = "GoneError", "gone";
    NOT_FOUND = "NotFoundError", "not-found";
    BIND = "LoadError", "bind";
    LOAD = "LoadError", "load";
    BOUNDS = "BoundsError", "bounds";
    INVALID = "InvalidError", "invalid";
    IN_USE = "InUseError", "in-use";
    CLOSED = "ClosedError", "closed";
    UNREADABLE = "InvalidError", "unreadable";
    REWRITE = "RewriteError", "rewrite";
}

/// A reason for which an operation fails.
#[derive(Debug)]
pub enum Failure {
    /// A failure of this library.
    Told(Box<Told>),
    /// An exception of a host function, which passes through.
    Raised(PyErr),
}

/// A failure in words.
#[derive(Debug)]
pub struct Told {
    kind: Kind,
    message: String,
    fault: Option<Fault>,
}

/// An exception of a host function on its way through the domains to their caller, as a panic.
#[derive(Debug)]
pub struct Raised(pub PyErr);

impl Failure {
    /// Makes a failure with a message.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self::Told(Box::new(Told { kind, message: message.into(), fault: None }))
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let kind = match fault.kind {
            FaultKind::TimeLimit
            | FaultKind::CpuLimit
            | FaultKind::TimeBudget
            | FaultKind::CpuBudget
            | FaultKind::InstructionBudget => TIME,
            FaultKind::Exit(_) => EXIT,
            _ => FAULT,
        };
        Self::Told(Box::new(Told { kind, message: fault.to_string(), fault: Some(fault) }))
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let kind = match error {
            CallError::Fault(fault) => return fault.into(),
            CallError::Dead { .. } => DEAD,
            CallError::NotReady { .. } => NOT_READY,
            CallError::Busy { .. } | CallError::Occupied { .. } | CallError::Deadlock { .. } | CallError::TooDeep => {
                REFUSED
            }
            CallError::Arguments { .. } => ARGUMENTS,
            CallError::Untimed | CallError::Unbudgeted | CallError::Watchdog(_) => UNTIMED,
            CallError::Gone { .. } | CallError::WrongWorld | CallError::Discarded | CallError::NotAFunction { .. } => {
                GONE
            }
        };
        Self::new(kind, chain(&error))
    }
}

impl From<BindError> for Failure {
    fn from(error: BindError) -> Self {
        match error {
            BindError::Unknown(error) => error.into(),
            error => Self::new(BIND, chain(&error)),
        }
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Bind(error) => error.into(),
            BuildError::Initialiser { error, .. } if matches!(*error, CallError::Fault(_)) => (*error).into(),
            error => Self::new(LOAD, chain(&error)),
        }
    }
}

macro_rules! with_kind {
    ($($error:ty: $kind:expr),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new($kind, chain(&error))
            }
        }
    )*};
}
with_kind!(
    LookupError: NOT_FOUND,
    ManifestError: LOAD,
    sfi_arbitration::manifest::TableError: LOAD,
    MemoryError: BOUNDS,
    BadDeclaration: INVALID,
);

impl Failure {
    /// Makes the exception.
    pub fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Failure::Raised(error) => error,
            Failure::Told(told) => told.raise(py).unwrap_or_else(|error| error),
        }
    }
}

impl Told {
    fn raise(&self, py: Python<'_>) -> PyResult<PyErr> {
        let class = py.import("sfi.errors")?.getattr(self.kind.class)?;
        let fields = PyDict::new(py);
        fields.set_item("code", self.kind.code)?;
        if let Some(fault) = &self.fault {
            describe(fault, &fields)?;
        }
        Ok(PyErr::from_value(class.call((&self.message,), Some(&fields))?))
    }
}

/// Adds the description of a fault. Names and lines are the word of the object's author, cleaned
/// of characters that cannot be printed.
fn describe(fault: &Fault, fields: &Bound<'_, PyDict>) -> PyResult<()> {
    let backtrace = fault.backtrace();
    let place = backtrace.frames.first();
    let source = place.and_then(|frame| frame.source.first());
    fields.set_item("domain", &fault.domain)?;
    fields.set_item("function", place.and_then(|frame| frame.function.as_deref()))?;
    fields.set_item("offset", fault.offset)?;
    fields.set_item("file", source.and_then(|source| source.file.as_deref()))?;
    fields.set_item("line", source.and_then(|source| source.line))?;
    fields.set_item("backtrace", backtrace.to_string())?;
    if let FaultKind::Exit(status) = fault.kind {
        fields.set_item("status", status)?;
    }
    Ok(())
}

/// Turns the failures of a body that needs no interpreter into exceptions.
pub fn raised<T>(py: Python<'_>, result: Result<T, Failure>) -> PyResult<T> {
    result.map_err(|failure| failure.raise(py))
}
