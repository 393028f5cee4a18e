//! Printing that survives a reader who closed the pipe. The macros of the standard library panic
//! then.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Exit code after the reader of the standard output is gone: that of a program which SIGPIPE
/// ended. The signal itself stays ignored, because a domain that writes to a closed pipe must not
/// end its host.
const CLOSED: u8 = 128 + 13;

/// Prints as `std::print!` does.
macro_rules! print {
    ($($text:tt)*) => { $crate::print::out(format_args!($($text)*)) };
}

/// Prints as `std::println!` does.
macro_rules! println {
    ($($text:tt)*) => { $crate::print::out(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints as `std::eprint!` does.
macro_rules! eprint {
    ($($text:tt)*) => { $crate::print::err(format_args!($($text)*)) };
}

/// Prints as `std::eprintln!` does.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::print::err(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes to the standard output. Ends the process if that fails, because a truncated report is no
/// success.
pub fn out(text: Arguments<'_>) {
    if let Err(error) = io::stdout().lock().write_fmt(text) {
        std::process::exit(i32::from(lost(&error)));
    }
}

/// Writes to the standard error output. Ignores errors, because there is no other place for them.
pub fn err(text: Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Reports the error of a write, unless the reader is gone, and returns the exit code for it.
fn lost(error: &io::Error) -> u8 {
    if error.kind() == ErrorKind::BrokenPipe {
        return CLOSED;
    }
    eprintln!("error: cannot write to the standard output: {error}");
    2
}

/// Reports an error of a subcommand.
pub fn failure(error: &anyhow::Error) -> ExitCode {
    let kinds = error.chain().filter_map(|cause| {
        let json = || cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        cause.downcast_ref::<io::Error>().map(io::Error::kind).or_else(json)
    });
    if kinds.into_iter().any(|kind| kind == ErrorKind::BrokenPipe) {
        return ExitCode::from(CLOSED);
    }
    // Names of files and domains may come from hostile objects. Only line breaks are kept, because
    // errors about texts have several lines.
    let text = format!("{error:#}");
    let lines: Vec<String> = text.split('\n').map(crate::render::visible).collect();
    eprintln!("error: {}", lines.join("\n"));
    ExitCode::from(2)
}

/// Reports a fault and the calls that led to it.
pub fn fault(fault: &sfi_loader::Fault) {
    eprint!("fault: {fault}\n{}", fault.backtrace());
    if fault.kind == sfi_loader::FaultKind::ControlStackOverflow {
        eprintln!("  = help: deeper recursion needs a larger --control-stack, or `control_stack` of the domain");
    }
}
