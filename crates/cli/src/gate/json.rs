//! The verdict as one JSON document of our own shape.

use super::{Finding, Outcome};
use crate::document;
use serde_json::{Value, json};
use sfi_contract::Mode;
use sfi_verifier::{Usage, Vectors};

/// Returns the document: `schema`, `mode`, and `objects` with all facts about each.
pub fn document(mode: Mode, outcomes: &[Outcome]) -> Value {
    document::numbered(json!({ "mode": mode.name(), "objects": outcomes.iter().map(object).collect::<Vec<_>>() }))
}

fn object(outcome: &Outcome) -> Value {
    let name = outcome.name();
    let verdict = match &outcome.result {
        Ok(verdict) => verdict,
        Err(why) => return json!({ "name": name, "readable": false, "safe": false, "error": why }),
    };
    json!({
        "name": name,
        "readable": true,
        "safe": verdict.is_safe(),
        "violations": verdict.findings.iter().map(violation).collect::<Vec<_>>(),
        "omitted": verdict.omitted,
        "text_bytes": verdict.text_bytes,
        "instructions": verdict.instructions,
        "usage": usage(&verdict.usage),
    })
}

fn violation(finding: &Finding) -> Value {
    json!({
        "rule": finding.code.id(),
        "title": finding.code.title(),
        "section": finding.section,
        "section_name": finding.section_name,
        "offset": finding.offset,
        "file_offset": finding.file_offset,
        "function": finding.function,
        "file": finding.source.as_ref().and_then(|s| s.file.as_deref()),
        "line": finding.source.as_ref().and_then(|s| s.line),
        "column": finding.source.as_ref().and_then(|s| s.column),
        "instruction": finding.instruction,
        "detail": finding.detail,
        "help": finding.code.help(),
        "known": finding.known,
    })
}

fn usage(usage: &Usage) -> Value {
    let vectors = match usage.vectors {
        Vectors::None => "none",
        Vectors::Xmm => "xmm",
        Vectors::Ymm => "ymm",
        Vectors::Zmm => "zmm",
    };
    json!({
        "gprs_written": registers(usage.gprs_written),
        "preserved_named": registers(usage.preserved_named),
        "vectors": vectors,
        "x87": usage.x87,
        "mxcsr": usage.mxcsr,
        "clock": usage.clock,
        "identity": usage.identity,
    })
}

/// Returns the names of the general registers in a set.
fn registers(set: u16) -> Vec<&'static str> {
    const NAMES: [&str; 16] =
        ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
    NAMES.into_iter().enumerate().filter(|(n, _)| set & (1 << n) != 0).map(|(_, name)| name).collect()
}
