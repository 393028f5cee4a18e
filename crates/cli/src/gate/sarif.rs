//! The verdict as SARIF 2.1.0 (OASIS standard *Static Analysis Results Interchange Format*), for
//! code scanning.
//!
//! The log has one run. The driver lists every rule, in the order of [`Code::all`]. A result points
//! to the byte in the input file, and names the archive's member and the function as logical
//! locations. An input without a verdict becomes a notification of the invocation, which is then
//! not successful.
//!
//! Paths beneath the root are relative to it (`uriBaseId` [`ROOT`]), so that code scanning finds
//! the files of the repository. The root is the working directory unless the user names another.
//! Only a root that the user names is written, so equal inputs give equal documents in any folder.

use super::{Code, Finding, Outcome, known};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::{Component, Path, PathBuf};

/// The symbol for the root in `originalUriBaseIds`.
const ROOT: &str = "ROOT";
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// `sarifLog`
#[derive(Serialize)]
struct Log {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run; 1],
}

/// `run`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    tool: Value,
    invocations: Value,
    original_uri_base_ids: Value,
    results: Vec<ResultObject>,
}

/// `result`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultObject {
    rule_id: &'static str,
    rule_index: usize,
    level: &'static str,
    message: Value,
    locations: [Value; 1],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_locations: Vec<Value>,
    partial_fingerprints: Value,
    /// Of a finding that is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suppressions: Vec<Value>,
}

/// Returns the document. Paths are relative to the folder `named`, or to the working directory.
/// `site` is the address of the published documentation.
///
/// # Errors
/// There is no working directory.
pub fn document(outcomes: &[Outcome], named: Option<&Path>, site: Option<&str>) -> anyhow::Result<Value> {
    let root = plain(&named.map_or_else(std::env::current_dir, std::path::absolute)?);
    let root = Root(&root);
    let base = match named {
        Some(_) => json!({ "uri": format!("{}/", uri(&root.0.to_string_lossy())) }),
        None => json!({ "description": { "text": "The working directory of `sfi verify`." } }),
    };
    let mut results = Vec::new();
    let mut notifications = Vec::new();
    for outcome in outcomes {
        match &outcome.result {
            Ok(verdict) => {
                results.extend(verdict.findings.iter().map(|finding| result(root, outcome, finding)));
                if verdict.omitted > 0 {
                    let text = format!("{}: {} more violations are not listed", outcome.name(), verdict.omitted);
                    notifications.push(notification(root, outcome, "warning", &text));
                }
            }
            Err(why) => notifications.push(notification(root, outcome, "error", &format!("{}: {why}", outcome.name()))),
        }
    }
    let successful = outcomes.iter().all(|o| o.result.is_ok());
    Ok(serde_json::to_value(Log {
        schema: SCHEMA,
        version: "2.1.0",
        runs: [Run {
            tool: json!({ "driver": {
                "name": "sfi",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": Code::all().map(|code| rule(code, site)).collect::<Vec<_>>(),
            }}),
            invocations: json!([{
                "executionSuccessful": successful,
                "toolExecutionNotifications": notifications,
            }]),
            original_uri_base_ids: json!({ ROOT: base }),
            results,
        }],
    })?)
}

/// The folder that paths are relative to, an absolute path.
#[derive(Clone, Copy)]
struct Root<'a>(&'a Path);

impl Root<'_> {
    /// Returns the `artifactLocation` of a path, which counts from the working directory.
    fn artifact(self, path: &str) -> Value {
        let absolute = std::path::absolute(path).map(|path| plain(&path));
        match absolute.as_ref().map(|path| path.strip_prefix(self.0)) {
            Ok(Ok(below)) => json!({ "uri": uri(&below.to_string_lossy()), "uriBaseId": ROOT }),
            _ => json!({ "uri": uri(path) }),
        }
    }
}

/// Returns an absolute path without `..`. It does not follow links.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// `reportingDescriptor`
fn rule(code: Code, site: Option<&str>) -> Value {
    let more = format!("{}. `sfi explain {}` says more.", code.help(), code.id());
    let mut rule = json!({
        "id": code.id(),
        "shortDescription": { "text": code.title() },
        "fullDescription": { "text": code.why() },
        "help": {
            "text": format!("What to do: {more}"),
            "markdown": format!("{}\n\n**What to do:** {more}", code.why()),
        },
        "defaultConfiguration": { "level": "error" },
        "properties": { "tags": ["security"], "security-severity": severity(code) },
    });
    if let (Some(site), Code::Contract(_)) = (site, code) {
        // A page that `cargo xtask book` makes. Rules of policies are the user's own.
        rule["helpUri"] = json!(format!("{}/rules.html#{}", site.trim_end_matches('/'), code.id()));
    }
    rule
}

/// Returns the severity as code scanning reads it, 0 to 10. An unsafe object can escape, an
/// unwanted one cannot.
const fn severity(code: Code) -> &'static str {
    match code {
        Code::Contract(_) => "9.0",
        Code::Policy(_) => "5.0",
    }
}

fn result(root: Root<'_>, outcome: &Outcome, finding: &Finding) -> ResultObject {
    let code = finding.code;
    let mut text = code.title().to_owned();
    if let Some(instruction) = &finding.instruction {
        text += &format!(": `{instruction}`");
    }
    if !finding.detail.is_empty() {
        text += &format!(" ({})", finding.detail);
    }
    if let Some(section) = &finding.section_name {
        text += &format!(", at {}: {section}+{:#x}", outcome.name(), finding.offset);
    }
    let place = format!(
        "{}:{}:{}+{:#x}",
        code.id(),
        outcome.name(),
        finding.section_name.as_deref().unwrap_or_default(),
        finding.offset
    );
    ResultObject {
        rule_id: code.id(),
        rule_index: Code::all().position(|c| c == code).expect("every code is listed"),
        level: "error",
        message: json!({ "text": text }),
        locations: [source(root, outcome, finding).unwrap_or_else(|| location(root, outcome, Some(finding)))],
        related_locations: finding.source.iter().map(|_| object_of(root, outcome, finding)).collect(),
        partial_fingerprints: json!({
            "sfiPlace/v1": super::digest::sha256(place.as_bytes()),
            known::FINGERPRINT: known::fingerprint(outcome, finding),
        }),
        suppressions: finding.known.iter().map(|why| json!({ "kind": "external", "justification": why })).collect(),
    }
}

fn notification(root: Root<'_>, outcome: &Outcome, level: &str, text: &str) -> Value {
    json!({ "level": level, "message": { "text": text }, "locations": [location(root, outcome, None)] })
}

/// `location`: the line of the source, because code scanning shows that. Names function and object,
/// as [`location`] does.
fn source(root: Root<'_>, outcome: &Outcome, finding: &Finding) -> Option<Value> {
    let source = finding.source.as_ref()?;
    let mut region = json!({ "startLine": source.line? });
    if let Some(column) = source.column {
        region["startColumn"] = json!(column);
    }
    let mut place = location(root, outcome, Some(finding));
    place["physicalLocation"] = json!({
        "artifactLocation": root.artifact(source.file.as_ref()?),
        "region": region,
    });
    Some(place)
}

/// `location`: the object with the instruction of a source line, and the byte in it.
fn object_of(root: Root<'_>, outcome: &Outcome, finding: &Finding) -> Value {
    let mut place = location(root, outcome, Some(finding));
    place["message"] = json!({ "text": "the instruction in the object" });
    place
}

/// `location`: the file and the byte in it, and the names of member and function.
fn location(root: Root<'_>, outcome: &Outcome, finding: Option<&Finding>) -> Value {
    let mut physical = Map::new();
    physical.insert("artifactLocation".to_owned(), root.artifact(&outcome.path));
    if let Some(offset) = finding.and_then(|f| f.file_offset) {
        physical.insert("region".to_owned(), json!({ "byteOffset": offset }));
    }
    let mut logical = vec![json!({ "fullyQualifiedName": outcome.name(), "kind": "object" })];
    if let Some((name, function)) = finding.and_then(|f| Some((f.function_name()?, f.function.as_deref()?))) {
        logical.push(json!({
            "name": name,
            "fullyQualifiedName": format!("{}:{function}", outcome.name()),
            "kind": "function",
        }));
    }
    json!({ "physicalLocation": physical, "logicalLocations": logical })
}

/// Writes a path as a URI reference (RFC 3986). It escapes everything but unreserved characters and
/// slashes, so a colon in the first segment does not make a scheme.
fn uri(path: &str) -> String {
    let scheme = if path.starts_with('/') { "file://" } else { "" };
    let escaped = path.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    scheme.to_owned() + &escaped.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uri_references() {
        assert_eq!(uri("a b/c:d%.o"), "a%20b/c%3Ad%25.o");
        assert_eq!(uri("/x/ä.o"), "file:///x/%C3%A4.o");
    }

    #[test]
    fn paths_beneath_the_root_are_relative_to_it() {
        let root = Root(Path::new("/src"));
        assert_eq!(root.artifact("/src/a/../b.c"), json!({ "uri": "b.c", "uriBaseId": "ROOT" }));
        assert_eq!(root.artifact("/srcs/b.c"), json!({ "uri": "file:///srcs/b.c" }));
        assert_eq!(root.artifact("/src/../b.c"), json!({ "uri": "file:///src/../b.c" }));
        let here = std::env::current_dir().unwrap();
        assert_eq!(Root(&here).artifact("./a.o"), json!({ "uri": "a.o", "uriBaseId": "ROOT" }));
    }
}
