//! Programs that differ in a domain by the sandbox's design.

use crate::programs::Suite;
use anyhow::ensure;

/// A suite, a program, and the reason why it differs.
const KNOWN: &[(Suite, &str, &str)] = &[
    (Suite::Cxx, "abi/forced.C", "pthread_exit unwinds by an exception of glibc's; musl has none"),
    (Suite::Cxx, "ext/cleanup-8.C", "throws out of a handler of SIGSEGV"),
    (Suite::Cxx, "tls/thread_local5.C", "starts a thread"),
    (Suite::Cxx, "torture/pr85334.C", "throws out of a handler of SIGSEGV"),
];

/// Returns the reason why a program may differ, if it may.
pub fn reason(suite: Suite, name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(s, n, _)| *s == suite && *n == name).map(|(.., why)| *why)
}

/// Returns all programs that may differ.
pub fn names() -> impl Iterator<Item = (Suite, &'static str)> {
    KNOWN.iter().map(|(suite, name, _)| (*suite, *name))
}

/// Checks that each program is listed once, with a reason.
pub fn reasons() -> anyhow::Result<()> {
    for (index, (suite, name, why)) in KNOWN.iter().enumerate() {
        ensure!(!why.is_empty(), "{name} has no reason");
        ensure!(!KNOWN[..index].iter().any(|(s, n, _)| s == suite && n == name), "{name} is listed twice");
    }
    Ok(())
}
