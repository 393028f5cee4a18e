//! A directory of objects to run the built `sfi` on.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod transcript;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A temporary directory.
pub struct Bench(tempfile::TempDir);

impl Bench {
    pub fn new() -> Bench {
        Bench(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).expect("written");
    }

    pub fn assemble(&self, name: &str, source: &str) {
        self.write("source.s", source.as_bytes());
        succeed(Command::new("as").args(["-o", name, "source.s"]).current_dir(self.directory()));
    }

    pub fn archive(&self, name: &str, members: &[&str]) {
        succeed(Command::new("ar").arg("qc").arg(name).args(members).current_dir(self.directory()));
    }

    /// Runs `sfi`, which must end with `code`.
    pub fn run(&self, arguments: &[&str], code: i32) -> Output {
        let output = sfi(self, arguments).output().expect("sfi runs");
        let text = || String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "sfi {arguments:?}: {}", text());
        output
    }
}

impl Bench {
    /// Runs `sfi` and returns its exit code.
    pub fn run_code(&self, arguments: &[&str]) -> i32 {
        sfi(self, arguments).output().expect("sfi runs").status.code().expect("no signal")
    }
}

/// Returns the built binary as a command in the bench's directory, without the caller's settings.
pub fn sfi(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sfi"));
    command.args(arguments).current_dir(bench.directory()).env_remove("SOURCE_DATE_EPOCH");
    command
}

/// Runs a command that must succeed. Returns its standard output.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}: run `cargo xtask setup`"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Returns the SHA-256 that coreutils compute.
pub fn sha256sum(path: &Path) -> String {
    let line = succeed(Command::new("sha256sum").arg("--").arg(path));
    line.split_whitespace().next().expect("a digest").to_owned()
}

/// Returns the repository's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads a schema of docs/schema, which lets fields be added.
pub fn schema(name: &str) -> jsonschema::Validator {
    jsonschema::validator_for(&read_schema(name)).expect("a schema")
}

/// Reads a schema of docs/schema for the program of the same version: nobody added a field.
pub fn strict_schema(name: &str) -> jsonschema::Validator {
    let mut schema = read_schema(name);
    close(&mut schema);
    jsonschema::validator_for(&schema).expect("a schema")
}

fn read_schema(name: &str) -> Value {
    let text = std::fs::read(root().join("docs/schema").join(name).with_extension("json")).expect(name);
    serde_json::from_slice(&text).expect("JSON")
}

/// Refuses fields that a schema does not describe.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            keys.values_mut().for_each(close);
            if keys.get("properties").is_some_and(Value::is_object) && !keys.contains_key("additionalProperties") {
                keys.insert("additionalProperties".into(), false.into());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}
