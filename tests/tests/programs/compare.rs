//! Running both sides in directories of their own and comparing all output.

use crate::build;
use crate::table::{Case, Run};
use anyhow::{Context, ensure};
use sfi_contract::Mode;
use sfi_tests::paths::{fixture, sfi};
use sfi_tests::sources::{matching, package};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use wait_timeout::ChildExt;

/// Time limit of one run.
const LIMIT: Duration = Duration::from_secs(600);
/// The program's name on both sides.
pub const PROGRAM: &str = "program";

/// The output of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// Not compared, because it may hold the program's name or times.
    pub stderr: String,
}

/// Returns the files that a case names: `fixture:NAME` or a pattern below the package's source.
fn named(source: &Path, name: &str) -> anyhow::Result<Vec<PathBuf>> {
    match name.strip_prefix("fixture:") {
        Some(name) => matching(&fixture("programs"), name),
        None => matching(source, name),
    }
}

/// Builds a case and compares its runs.
pub fn case(case: &Case, modes: &[Mode]) -> anyhow::Result<()> {
    let source = package(case.package)?;
    let temporary = tempfile::tempdir()?;
    let work = temporary.path();
    (case.prepare)(&source, work)?;
    let flags: Vec<String> = case
        .flags
        .iter()
        .map(|f| f.replace("{src}", &source.display().to_string()).replace("{work}", &work.display().to_string()))
        .collect();
    let mut inputs = Vec::new();
    let mut mains = Vec::new();
    for (patterns, list, shared) in [(case.common, &mut inputs, true), (case.programs, &mut mains, false)] {
        for pattern in patterns {
            for file in named(&source, pattern)? {
                if shared && case.except.iter().any(|name| file.ends_with(name)) {
                    continue;
                }
                let stem = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let object = work.join(format!("{}-{stem}.o", list.len()));
                build::compile(&file, &flags, &object, work)?;
                list.push(object);
            }
        }
    }
    ensure!(!mains.is_empty() && !case.runs.is_empty(), "nothing to compare");
    let library = work.join("library.a");
    build::archive(&inputs, &library, work)?;
    let mut rewritten = Vec::new();
    for mode in modes {
        let to = work.join(format!("library-{mode}.a"));
        if inputs.is_empty() {
            fs::copy(&library, &to).map(drop)?
        } else {
            build::rewrite(&library, *mode, &to, work)?
        }
        rewritten.push((*mode, to));
    }
    for main in &mains {
        let native = work.join("native");
        build::native(&[main.clone(), library.clone()], &native, work)?;
        let mut programs = Vec::new();
        for (mode, library) in &rewritten {
            let to = work.join(format!("domain-{mode}"));
            build::domain(&[main.clone(), library.clone()], *mode, &to, work)?;
            programs.push((*mode, to));
        }
        for run in case.runs {
            compare(&source, run, &native, &programs, work)
                .with_context(|| format!("{} {:?}", main.display(), run.args))?;
        }
    }
    Ok(())
}

fn compare(source: &Path, run: &Run, native: &Path, programs: &[(Mode, PathBuf)], work: &Path) -> anyhow::Result<()> {
    let expected = leave(source, run, native, None, work).context("natively")?;
    ensure!(
        run.status == expected.code || run.status.is_none(),
        "natively: status {:?}, {}",
        expected.code,
        expected.stderr
    );
    for (mode, program) in programs {
        let actual = leave(source, run, program, Some(*mode), work).with_context(|| format!("mode {mode}"))?;
        same(&expected, &actual).with_context(|| format!("mode {mode}: {}", actual.stderr))?;
    }
    Ok(())
}

/// Compares two sides and reports the first difference.
pub fn same(expected: &Left, actual: &Left) -> anyhow::Result<()> {
    ensure!(expected.code == actual.code, "status {:?} instead of {:?}", actual.code, expected.code);
    if expected.stdout != actual.stdout {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (e, a) = (text(&expected.stdout), text(&actual.stdout));
        let line = e.lines().zip(a.lines()).position(|(e, a)| e != a).unwrap_or(0);
        anyhow::bail!("line {line} of the output: {:?} instead of {:?}", a.lines().nth(line), e.lines().nth(line));
    }
    let names = |left: &Left| left.files.keys().cloned().collect::<Vec<_>>();
    ensure!(names(expected) == names(actual), "files {:?} instead of {:?}", names(actual), names(expected));
    for (name, bytes) in &expected.files {
        ensure!(actual.files.get(name) == Some(bytes), "the file {} differs", name.display());
    }
    Ok(())
}

fn leave(source: &Path, run: &Run, program: &Path, mode: Option<Mode>, work: &Path) -> anyhow::Result<Left> {
    let directory = tempfile::tempdir_in(work)?;
    for name in run.files {
        let (to, name) = name.split_once('=').unwrap_or((".", name));
        let to = directory.path().join(to);
        fs::create_dir_all(&to)?;
        for file in named(source, name)? {
            fs::copy(&file, to.join(file.file_name().unwrap_or_default()))?;
        }
    }
    let stdin = match run.stdin {
        "" => None,
        name if name.starts_with("work:") => Some(work.join(&name[5..])),
        name => named(source, name)?.pop(),
    };
    fs::copy(program, directory.path().join(PROGRAM))?;
    let arguments: Vec<String> = run.args.iter().map(|a| (*a).to_owned()).collect();
    execute(directory.path(), &arguments, stdin.as_deref(), mode)
}

/// Runs [`PROGRAM`] in a directory that it may change, without an environment.
pub fn execute(
    directory: &Path,
    arguments: &[String],
    stdin: Option<&Path>,
    mode: Option<Mode>,
) -> anyhow::Result<Left> {
    let mut command = match mode {
        None => {
            let mut command = Command::new(directory.join(PROGRAM));
            command.arg0(PROGRAM).args(arguments);
            command
        }
        Some(mode) => {
            let mut command = Command::new(sfi()?);
            command.args(["run", "--mode", mode.name(), "--dir", ".::.", PROGRAM, "--"]).args(arguments);
            command
        }
    };
    let outside = tempfile::tempdir()?;
    let (out, err) = (outside.path().join("out"), outside.path().join("err"));
    let stdin = stdin.map_or_else(|| Ok(Stdio::null()), |path| fs::File::open(path).map(Stdio::from))?;
    let mut child = command
        .current_dir(directory)
        .env_clear()
        .stdin(stdin)
        .stdout(fs::File::create(&out)?)
        .stderr(fs::File::create(&err)?)
        .spawn()?;
    let Some(status) = child.wait_timeout(LIMIT)? else {
        child.kill()?;
        child.wait()?;
        anyhow::bail!("it did not end within {LIMIT:?}");
    };
    let code =
        std::os::unix::process::ExitStatusExt::signal(&status).map_or(status.code(), |signal| Some(128 + signal));
    let mut files = BTreeMap::new();
    collect(directory, directory, &mut files)?;
    files.remove(Path::new(PROGRAM));
    let stderr = String::from_utf8_lossy(&fs::read(err)?).into_owned();
    Ok(Left { code, stdout: fs::read(out)?, files, stderr })
}

fn collect(root: &Path, directory: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            files.insert(path.strip_prefix(root)?.to_owned(), fs::read(&path)?);
        }
    }
    Ok(())
}
