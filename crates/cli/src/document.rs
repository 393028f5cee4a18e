//! The JSON documents that subcommands print. `docs/schema` has the schema of each subcommand's.

use serde_json::Value;
use std::io::Write;

/// Number of a document's form. It grows when a field is renamed or removed, or when its meaning
/// changes. It stays when one is added.
const FORM: u32 = 1;

/// Completes a document: adds `schema`, the number of its form, to its fields.
pub fn numbered(mut fields: Value) -> Value {
    fields["schema"] = FORM.into();
    fields
}

/// Prints the document with these fields.
pub fn print(fields: Value) -> anyhow::Result<()> {
    write(&numbered(fields))
}

/// Prints a complete document.
pub fn write(document: &Value) -> anyhow::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, document)?;
    writeln!(out)?;
    Ok(out.flush()?)
}
