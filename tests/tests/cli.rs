//! Snapshots of the command line: files under `cli/` hold commands with the expected output and
//! exit codes. `BLESS=1 cargo test -p sfi-tests --test cli` rewrites the expectations. Read the
//! difference before you commit it.

use sfi_tests::paths;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn commands_print_what_the_files_say() {
    if std::env::var_os("BLESS").is_some() && std::env::var_os("TRYCMD").is_none() {
        let mut again = Command::new(std::env::current_exe().expect("the running test"));
        let status = again.args(std::env::args_os().skip(1)).env("TRYCMD", "overwrite").status();
        assert!(status.expect("the test runs again").success());
        return;
    }
    let sfi = paths::sfi().unwrap_or_else(|e| panic!("{e:#}"));
    let cases = trycmd::TestCases::new();
    cases.env("LC_ALL", "C");
    cases.register_bin("sfi", sfi);
    for tool in ["as", "ar", "ls"] {
        cases.register_bin(tool, tool_path(tool));
    }
    cases.case("cli/*.trycmd");
    cases.run();
}

fn tool_path(name: &str) -> PathBuf {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&directories).map(|d| d.join(name)).find(|p| p.exists());
    found.unwrap_or_else(|| panic!("`{name}` is missing: run `cargo xtask setup`"))
}
