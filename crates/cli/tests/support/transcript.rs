//! Transcripts: commands after `$ `, each with the output below it.

use super::Bench;
use std::path::Path;
use std::process::Command;

/// Returns the commands of a transcript, each with the output below it.
pub fn transcript(block: &str) -> Vec<(&str, String)> {
    let mut commands: Vec<(&str, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, String::new())),
            (None, Some((_, output))) => *output += &format!("{line}\n"),
            (None, None) => panic!("output before the first command: {line}"),
        }
    }
    commands
}

/// Says whether output is as a transcript shows it. A last line of dots stands for the rest.
pub fn is_shown(output: &str, shown: &str) -> bool {
    let (output, shown) = (output.trim_end(), shown.trim_end());
    match shown.strip_suffix("\n...") {
        Some(start) => output.strip_prefix(start).is_some_and(|rest| rest.starts_with('\n')),
        None => output == shown,
    }
}

/// Runs a command in the bench's directory, with the built `sfi` on the path. Returns its output
/// and errors as they come, with `...` for the directory.
pub fn say(bench: &Bench, command: &str) -> String {
    let sfi = Path::new(env!("CARGO_BIN_EXE_sfi"));
    let path = format!("{}:{}", sfi.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let directory = bench.directory().canonicalize().unwrap();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("exec 2>&1\n{command}")).current_dir(&directory).env("PATH", &path);
    shell.env("LC_ALL", "C").env_remove("SFI_MODE").env_remove("SFI_RUN_FLAGS");
    let output = shell.output().expect("sh runs");
    String::from_utf8_lossy(&output.stdout).replace(&directory.display().to_string(), "...")
}
