//! Printing for readers that may have gone: the macros of the standard library panic when a pipe is
//! closed.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Exit code when nobody reads the standard output any more: that of a program which SIGPIPE ended.
/// The signal itself stays ignored, because a domain that writes to a closed pipe must not end its
/// host.
const CLOSED: u8 = 128 + 13;

/// As `std::print!`.
macro_rules! print {
    ($($text:tt)*) => { $crate::print::out(format_args!($($text)*)) };
}

/// As `std::println!`.
macro_rules! println {
    ($($text:tt)*) => { $crate::print::out(format_args!("{}\n", format_args!($($text)*))) };
}

/// As `std::eprint!`.
macro_rules! eprint {
    ($($text:tt)*) => { $crate::print::err(format_args!($($text)*)) };
}

/// As `std::eprintln!`.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::print::err(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes to the standard output. Ends the process if that fails: a report that is cut off is no
/// success.
pub fn out(text: Arguments<'_>) {
    if let Err(error) = io::stdout().lock().write_fmt(text) {
        std::process::exit(i32::from(lost(&error)));
    }
}

/// Writes to the standard error output. Without a reader there is nothing left to say it to.
pub fn err(text: Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Says why output was lost, unless its reader is gone, and returns the exit code for it.
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
    // Names of files and domains may be anybody's; errors about text have lines.
    let text = format!("{error:#}");
    let lines: Vec<String> = text.split('\n').map(crate::render::visible).collect();
    eprintln!("error: {}", lines.join("\n"));
    ExitCode::from(2)
}

/// Reports a fault and the calls that led to it.
pub fn fault(fault: &sfi_loader::Fault) {
    eprint!("fault: {fault}\n{}", fault.backtrace());
}
