//! Errors: a status, a message, and the description of a fault.

use sfi_loader::interface::BadDeclaration;
use sfi_loader::manifest::ManifestError;
use sfi_loader::{
    AddressClass, BadSignature, BindError, BuildError, CallError, Fault, FaultKind, LookupError, MemoryError, chain,
};
use std::any::Any;
use std::ffi::{CString, c_char, c_int};
use std::ptr;

/// `sfi_status`.
pub type Status = c_int;

// As in sfi.h.
pub(crate) const OK: Status = 0;
pub(crate) const FAULT: Status = 1;
pub(crate) const TIME: Status = 2;
pub(crate) const DEAD: Status = 3;
pub(crate) const REFUSED: Status = 4;
pub(crate) const ARGUMENTS: Status = 5;
pub(crate) const GONE: Status = 6;
pub(crate) const UNTIMED: Status = 7;
pub(crate) const NOT_FOUND: Status = 8;
pub(crate) const BIND: Status = 9;
pub(crate) const LOAD: Status = 10;
pub(crate) const BOUNDS: Status = 11;
pub(crate) const INVALID: Status = 12;
pub(crate) const IN_USE: Status = 13;
pub(crate) const PANIC: Status = 14;
#[expect(dead_code, reason = "for host functions to return")]
pub(crate) const HOST: Status = 15;
pub(crate) const EXIT: Status = 16;
pub(crate) const NOT_READY: Status = 17;
pub(crate) const BUSY: Status = 18;
pub(crate) const INSTRUCTIONS: Status = 19;

/// An error on its way to the host.
#[derive(Debug)]
pub(crate) struct Failure(Box<sfi_error>);

/// `sfi_error`.
#[derive(Debug, Default)]
pub struct sfi_error {
    code: Status,
    message: CString,
    fault: Option<Told>,
}

/// A fault in words.
#[derive(Debug)]
struct Told {
    domain: CString,
    function: Option<CString>,
    offset: u64,
    file: Option<CString>,
    line: u64,
    class: c_int,
    region: Option<CString>,
    backtrace: CString,
}

/// Makes text for C. A zero byte does not cut off the text after it.
pub(crate) fn c_text(text: impl Into<String>) -> CString {
    CString::new(text.into().replace('\0', "\u{fffd}")).expect("no zero byte is left")
}

impl Failure {
    /// Makes an error with a message.
    #[cold]
    #[inline(never)]
    pub(crate) fn new(code: Status, message: impl Into<String>) -> Self {
        Self(Box::new(sfi_error { code, message: c_text(message), fault: None }))
    }

    /// Describes a panic that reached the border: a defect.
    pub(crate) fn panic(payload: Box<dyn Any + Send>) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        // The payload's destructor does not run here, because it may panic too.
        std::mem::forget(payload);
        Self::new(PANIC, format!("a defect of libsfi: {text}"))
    }

    /// Returns the status, which the host gets in any case.
    pub(crate) fn status(&self) -> Status {
        self.0.code
    }

    /// Allocates the error for the host, which frees it.
    pub(crate) fn boxed(self) -> *mut sfi_error {
        Box::into_raw(self.0)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let code = match fault.kind {
            FaultKind::TimeLimit | FaultKind::CpuLimit | FaultKind::TimeBudget | FaultKind::CpuBudget => TIME,
            FaultKind::InstructionBudget => INSTRUCTIONS,
            FaultKind::Exit(_) => EXIT,
            _ => FAULT,
        };
        let class = match fault.kind {
            FaultKind::Memory(AddressClass::Null) => 1,
            FaultKind::Memory(AddressClass::Protected) => 2,
            FaultKind::Memory(AddressClass::Unmapped) => 3,
            FaultKind::Memory(AddressClass::Outside) => 4,
            FaultKind::Memory(AddressClass::Unknown) => 5,
            _ => 0,
        };
        let backtrace = fault.backtrace();
        let source = backtrace.frames.first().and_then(|frame| frame.source.first());
        let told = Told {
            domain: c_text(fault.domain.clone()),
            function: backtrace.frames.first().and_then(|frame| frame.function.clone()).map(c_text),
            offset: fault.offset,
            file: source.and_then(|source| source.file.clone()).map(c_text),
            line: source.and_then(|source| source.line).unwrap_or(0),
            class,
            region: fault.region().map(|(region, _)| c_text(region)),
            backtrace: c_text(backtrace.to_string()),
        };
        let message = match fault.kind {
            FaultKind::Exit(status) => format!("the domain's libc exits with {status}"),
            _ => fault.to_string(),
        };
        let mut failure = Self::new(code, message);
        failure.0.fault = Some(told);
        failure
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let code = match error {
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
        Self::new(code, chain(&error))
    }
}

impl From<LookupError> for Failure {
    fn from(error: LookupError) -> Self {
        Self::new(NOT_FOUND, chain(&error))
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

macro_rules! with_code {
    ($($kind:ty: $code:expr),*) => {$(
        impl From<$kind> for Failure {
            fn from(error: $kind) -> Self {
                Self::new($code, chain(&error))
            }
        }
    )*};
}
with_code!(
    ManifestError: LOAD,
    sfi_arbitration::manifest::TableError: LOAD,
    MemoryError: BOUNDS,
    BadSignature: INVALID,
    BadDeclaration: INVALID
);

/// Returns a text of the error, or null if it has none.
///
/// # Safety
/// Null, or an error that was not freed.
unsafe fn told(error: *const sfi_error, of: impl FnOnce(&Told) -> Option<&CString>) -> *const c_char {
    // SAFETY: see the function's contract.
    let fault = unsafe { error.as_ref() }.and_then(|error| error.fault.as_ref());
    fault.and_then(of).map_or(ptr::null(), |text| text.as_ptr())
}

macro_rules! accessors {
    ($($(#[$meta:meta])* fn $name:ident() -> $kind:ty { |$fault:ident| $body:expr, otherwise $otherwise:expr })*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(error: *const sfi_error) -> $kind {
            // SAFETY: the crate's documentation states the host's duties.
            unsafe { error.as_ref() }.and_then(|error| error.fault.as_ref()).map_or($otherwise, |$fault| $body)
        }
    )*};
}

accessors! {
    /// Returns the offset from the function's start, in bytes.
    fn sfi_error_offset() -> u64 { |fault| fault.offset, otherwise 0 }
    /// Returns the line, or 0 if it is not known.
    fn sfi_error_line() -> u64 { |fault| fault.line, otherwise 0 }
    /// Returns the class of a faulting access's target.
    fn sfi_error_address_class() -> c_int { |fault| fault.class, otherwise 0 }
}

/// Returns the status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_error_code(error: *const sfi_error) -> Status {
    // SAFETY: the crate's documentation states the host's duties.
    unsafe { error.as_ref() }.map_or(INVALID, |error| error.code)
}

/// Returns the message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_error_message(error: *const sfi_error) -> *const c_char {
    // SAFETY: the crate's documentation states the host's duties.
    unsafe { error.as_ref() }.map_or(ptr::null(), |error| error.message.as_ptr())
}

/// Returns the domain that faulted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_error_domain(error: *const sfi_error) -> *const c_char {
    // SAFETY: the crate's documentation states the host's duties.
    unsafe { told(error, |fault| Some(&fault.domain)) }
}

/// Returns the function that was running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_error_function(error: *const sfi_error) -> *const c_char {
    // SAFETY: the crate's documentation states the host's duties.
    unsafe { told(error, |fault| fault.function.as_ref()) }
}

/// Returns the source file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_error_file(error: *const sfi_error) -> *const c_char {
    // SAFETY: the crate's documentation states the host's duties.
    unsafe { told(error, |fault| fault.file.as_ref()) }
}

/// Returns the shared region that was accessed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_error_region(error: *const sfi_error) -> *const c_char {
    // SAFETY: the crate's documentation states the host's duties.
    unsafe { told(error, |fault| fault.region.as_ref()) }
}

/// Returns the calls in progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_error_backtrace(error: *const sfi_error) -> *const c_char {
    // SAFETY: the crate's documentation states the host's duties.
    unsafe { told(error, |fault| Some(&fault.backtrace)) }
}

/// Frees an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_error_free(error: *mut sfi_error) {
    if !error.is_null() {
        // SAFETY: from `Failure::boxed`; the crate's documentation states the host's duties.
        drop(unsafe { Box::from_raw(error) });
    }
}
