//! Programs that a domain may start, by names that the host chose.
//!
//! A program of the host runs with all rights of this process' user. The domain chooses its
//! arguments, but not the file. A program that is run in a domain of its own is started by a
//! *runner*, with options that the host chose.

use crate::errno::Errno;
use crate::file_system::kind;
use crate::mounts;
use crate::tree::{Preopen, Tree, absolute};
use crate::walk::{Intent, Last};
use rustix::fs::{FileType, Mode, OFlags, stat};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Variables that a program of the host gets from a domain. Their values name no file.
const HARMLESS: [&str; 5] = ["LANG", "TERM", "COLUMNS", "LINES", "POSIXLY_CORRECT"];
/// The start of the names of further such variables.
const LOCALE: &str = "LC_";
/// Bytes of a file that tell whether it is a program for a domain.
const HEAD: u64 = 4096;
/// The variable that names the places of programs. Its value is the host's.
const PATH: &str = "PATH";

/// A program that a domain may start.
#[derive(Clone, Debug)]
pub struct Startable {
    /// The domain's name for it: absolute and normal, or without a slash.
    name: String,
    file: PathBuf,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// A program of the host, and the names of further variables that it gets.
    Host(Vec<String>),
    /// A program for a domain, and the program that runs it, with its first arguments. The domain
    /// may put another file in the place of this one.
    Domain { opened: Arc<OwnedFd>, runner: PathBuf, options: Vec<OsString> },
}

/// The options with which a runner runs a file in a domain, if the file's first bytes are those of
/// such a program.
pub type Options = Box<dyn Fn(&[u8]) -> Option<Vec<OsString>> + Send>;

/// Programs that a domain may start wherever they lie beneath its directories. They run in domains
/// of their own.
pub struct Beneath {
    /// The program that runs them (see [`Startable::domain`]).
    pub runner: PathBuf,
    /// Its options.
    pub options: Options,
}

impl std::fmt::Debug for Beneath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beneath").field("runner", &self.runner).finish_non_exhaustive()
    }
}

impl Beneath {
    /// Returns the program that a path of the domain means.
    pub(crate) fn program(&self, tree: &Tree, path: &str) -> Result<Startable, Errno> {
        let found = tree.look_up(&tree.working, path, Last::Follow, Intent::Read)?;
        let (_, stat) = found.target()?;
        if kind(stat) != FileType::RegularFile || stat.st_mode & 0o111 == 0 {
            return Err(Errno::ACCES);
        }
        let open = File::from(found.open(OFlags::RDONLY, Mode::empty())?.0);
        let options = (self.options)(&Startable::head(&open)?).ok_or(Errno(libc::ENOEXEC))?;
        // For messages: the name of the file that the tree led to.
        let file = rustix::fs::readlink(format!("/proc/self/fd/{}", open.as_raw_fd()), Vec::new())?;
        let file = PathBuf::from(OsString::from_vec(file.into_bytes()));
        let kind = Kind::Domain { opened: Arc::new(open.into()), runner: self.runner.clone(), options };
        Ok(Startable { name: absolute(&tree.working, path), file, kind })
    }
}

/// One start of a program: the values that the domain chose.
#[derive(Debug)]
pub(crate) struct Start {
    pub arguments: Vec<OsString>,
    pub environment: Vec<OsString>,
    /// The working directory, by the domain's name for it.
    pub working: String,
    /// The descriptor with the rest of the quota, for a program in a domain.
    pub spending: Option<RawFd>,
}

impl Startable {
    /// Reads a file's first bytes, which tell whether it is a program for a domain.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn head(file: &File) -> std::io::Result<Vec<u8>> {
        let mut head = Vec::new();
        file.take(HEAD).read_to_end(&mut head)?;
        Ok(head)
    }

    /// Grants a program of the host. It gets the host's `PATH`, variables of the domain about
    /// language and terminal, and no others.
    ///
    /// # Errors
    /// There is no such file.
    pub fn host(name: &str, file: &Path) -> std::io::Result<Startable> {
        Ok(Startable { name: normal(name), file: regular(file)?, kind: Kind::Host(Vec::new()) })
    }

    /// Lets a program of the host also get these variables from the domain. Some variables choose
    /// the code that a program runs.
    #[must_use]
    pub fn variables(mut self, names: &[String]) -> Startable {
        if let Kind::Host(variables) = &mut self.kind {
            variables.extend_from_slice(names);
        }
        self
    }

    /// Grants a program that runs in a domain. `runner` is called as `runner OPTIONS
    /// --opened=DESCRIPTOR --spending=DESCRIPTOR --variables=COUNT --cwd=GUEST --argv0=NAME FILE --
    /// ARGUMENTS`, as `sfi run --started` expects it. The first descriptor has the file, which is
    /// opened here, because its name may lead to another one later. The second one has the rest of
    /// the quota ([`crate::Arbiter::spends_from`]). Its environment holds the program's, because
    /// other users may read arguments: [`variable`] 0 has `NAME=VALUE`, and so on.
    ///
    /// # Errors
    /// There is no such file.
    pub fn domain(name: &str, file: &Path, runner: &Path, options: Vec<OsString>) -> std::io::Result<Startable> {
        let file = regular(file)?;
        let opened = Arc::new(File::open(&file)?.into());
        Ok(Startable { name: normal(name), file, kind: Kind::Domain { opened, runner: runner.to_owned(), options } })
    }

    /// Returns the open file of a program for a domain. The runner reads it there.
    pub(crate) fn opened(&self) -> Option<Arc<OwnedFd>> {
        match &self.kind {
            Kind::Host(_) => None,
            Kind::Domain { opened, .. } => Some(opened.clone()),
        }
    }

    /// Says whether the program runs with the user's rights.
    pub(crate) fn is_host(&self) -> bool {
        matches!(self.kind, Kind::Host(_))
    }

    /// Says whether the domain means this program by a path. A search takes names without slashes.
    fn is_meant(&self, path: &str, working: &str, search: bool) -> bool {
        match path.contains('/') {
            true => self.name == absolute(working, path),
            false => search && self.name.rsplit('/').next() == Some(path),
        }
    }

    /// Says whether the domain could have changed the file that the kernel runs, the program or its
    /// runner, so that it would choose the code. It may write to it by another mount.
    pub(crate) fn is_changeable(&self, preopens: &[Preopen]) -> bool {
        let changeable = |path: &Path| match stat(path) {
            Ok(stat) => preopens.iter().any(|p| p.writable && p.is((stat.st_dev, stat.st_ino))),
            Err(_) => true,
        };
        let file = match &self.kind {
            Kind::Host(_) => &self.file,
            Kind::Domain { runner, .. } => runner,
        };
        file.ancestors().any(changeable) || mounts::hold(preopens, file).unwrap_or(true)
    }

    /// Returns the command that starts the program.
    pub(crate) fn command(&self, start: &Start) -> Command {
        let own = OsStr::new(&self.name);
        let name = start.arguments.first().map_or(own, OsString::as_os_str);
        let rest = start.arguments.iter().skip(1);
        let mut command;
        match &self.kind {
            Kind::Host(variables) => {
                use std::os::unix::process::CommandExt;
                command = Command::new(&self.file);
                // Some programs do another one's work under its name.
                let is_own = name == own || Some(name) == Path::new(own).file_name();
                command.arg0(if is_own { name } else { own }).args(rest).env_clear();
                command.envs(start.environment.iter().filter_map(|text| allowed(text, variables)));
                command.envs(std::env::var_os(PATH).map(|value| (PATH, value)));
            }
            Kind::Domain { opened, runner, options } => {
                command = Command::new(runner);
                command.args(options).arg(format!("--opened={}", opened.as_raw_fd()));
                command.args(start.spending.map(|number| format!("--spending={number}")));
                let option = |name: &str, value: &OsStr| [OsStr::new(name), value].join(OsStr::new(""));
                // A name without a value would mean the host's value.
                let variables = start.environment.iter().filter(|text| text.as_bytes().contains(&b'='));
                let named: Vec<_> = variables.zip(0..).map(|(text, at)| (variable(at), text)).collect();
                command.arg(format!("--variables={}", named.len())).envs(named);
                if !start.working.is_empty() {
                    command.arg(option("--cwd=", OsStr::new(&start.working)));
                }
                command.arg(option("--argv0=", name)).arg(&self.file).arg("--").args(rest);
            }
        }
        command
    }
}

/// Returns the name of a variable of a runner, which holds a variable of the program. The kernel's
/// loader and the runner know no such name.
pub fn variable(at: usize) -> String {
    format!("SFI_VARIABLE_{at}")
}

/// Finds the program that a domain means.
pub(crate) fn meant<'p>(programs: &'p [Startable], path: &str, working: &str, search: bool) -> Option<&'p Startable> {
    programs.iter().find(|program| program.is_meant(path, working, search))
}

/// Returns the name and the value of a variable that a program of the host may get.
fn allowed<'v>(text: &'v OsStr, variables: &[String]) -> Option<(&'v OsStr, &'v OsStr)> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
    let (name, value) = (std::str::from_utf8(&bytes[..at]).ok()?, OsStr::from_bytes(&bytes[at + 1..]));
    let harmless = (HARMLESS.contains(&name) || name.starts_with(LOCALE)) && !value.as_bytes().contains(&b'/');
    let good = harmless || variables.iter().any(|variable| variable == name);
    good.then_some((OsStr::new(name), value))
}

/// Returns the normal form of a name.
fn normal(name: &str) -> String {
    if name.contains('/') { absolute("", name) } else { name.to_owned() }
}

/// Returns the place of a regular file, without links.
fn regular(file: &Path) -> std::io::Result<PathBuf> {
    let file = std::fs::canonicalize(file)?;
    match std::fs::metadata(&file)?.is_file() {
        true => Ok(file),
        false => Err(Error::new(ErrorKind::InvalidInput, "it is no regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<&OsStr> {
        std::iter::once(command.get_program()).chain(command.get_args()).collect()
    }

    fn start(environment: &[&str]) -> Start {
        let owned = |list: &[&str]| list.iter().map(OsString::from).collect();
        Start {
            arguments: owned(&["me", "--env", "x"]),
            environment: owned(environment),
            working: "/w".into(),
            spending: Some(9),
        }
    }

    #[test]
    fn names_are_exact() {
        let programs = [Startable::host("/bin/../bin//sh", Path::new("/bin/sh")).expect("a shell")];
        let is = |path, working, search| meant(&programs, path, working, search).is_some();
        assert!(is("/bin/sh", "", false) && is("./sh", "/bin", false) && is("sh", "", true));
        assert!(!is("sh", "/bin", false) && !is("/bin/sh2", "", true) && !is("", "", true));
        assert!(!is("/tmp/sh", "", true) && !is("bin", "", true) && !is("./sh", "/tmp", true));
        assert!(Startable::host("x", Path::new("/bin")).is_err());
        assert!(Startable::host("x", Path::new("/nowhere")).is_err());
    }

    #[test]
    fn the_hosts_programs_get_few_variables() {
        let program = Startable::host("sh", Path::new("/bin/sh")).expect("a shell").variables(&["OWN".into()]);
        let given =
            ["LD_PRELOAD=/x.so", "PATH=/evil", "LANG=C", "LC_ALL=../x", "LC_TIME=de", "OWN=/a", "OWN2=b", "=", "x"];
        let command = program.command(&start(&given));
        let mut names: Vec<_> = command.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
        names.sort_unstable();
        let path = std::env::var_os("PATH").expect("the tests' PATH");
        let expected = [("LANG", "C"), ("LC_TIME", "de"), ("OWN", "/a")].map(|(n, v)| (OsStr::new(n), OsStr::new(v)));
        assert_eq!(names, [&expected[..], &[(OsStr::new("PATH"), &*path)]].concat());
    }

    #[test]
    fn a_runner_gets_values_and_no_options() {
        let options = vec!["run".into(), "--started".into()];
        let program = Startable::domain("p", Path::new("/bin/sh"), Path::new("/sfi"), options).expect("a file");
        let command = program.command(&start(&["A=b", "HOME", "--dir=/"]));
        let sh = std::fs::canonicalize("/bin/sh").expect("a shell");
        let opened = format!("--opened={}", program.opened().expect("a file").as_raw_fd());
        let expected = ["/sfi", "run", "--started", &opened, "--spending=9", "--variables=2", "--cwd=/w", "--argv0=me"];
        let (front, back) = (expected.map(OsStr::new), ["--", "--env", "x"].map(OsStr::new));
        assert_eq!(words(&command), [&front[..], &[sh.as_os_str()], &back].concat());
        // The variables are no arguments, and their names are not the domain's choice.
        let given: Vec<_> = command.get_envs().collect();
        let values = [("SFI_VARIABLE_0", "A=b"), ("SFI_VARIABLE_1", "--dir=/")];
        assert_eq!(given, values.map(|(name, value)| (OsStr::new(name), Some(OsStr::new(value)))));
    }

    /// The file that was checked is the one that the runner gets, whatever its name leads to later.
    #[test]
    fn a_program_stays_the_file_that_was_checked() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        for name in ["inner", "inner/sub", "outer"] {
            std::fs::create_dir(at(name)).expect("made");
        }
        for (name, text) in [("inner/sub/program", "good"), ("outer/program", "evil")] {
            std::fs::write(at(name), text).expect("written");
            let run = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(at(name), run).expect("changed");
        }
        let tree = Tree::new(vec![Preopen::open(&at("inner"), "/", true).expect("a grant")].into());
        let options: Options = Box::new(|head| (head == b"good").then(Vec::new));
        let beneath = Beneath { runner: "/bin/sh".into(), options };
        let granted = Startable::domain("p", &at("inner/sub/program"), Path::new("/bin/sh"), Vec::new());
        let programs = [beneath.program(&tree, "/sub/program").expect("found"), granted.expect("a file")];
        std::fs::rename(at("inner/sub"), at("inner/old")).expect("renamed");
        std::os::unix::fs::symlink("../outer", at("inner/sub")).expect("a link");
        for program in programs {
            let command = program.command(&start(&[]));
            let number = words(&command).into_iter().find_map(|word| word.to_str()?.strip_prefix("--opened="));
            let read = std::fs::read_to_string(format!("/proc/self/fd/{}", number.expect("a descriptor")));
            assert_eq!(read.expect("read"), "good");
        }
    }

    #[test]
    fn the_hosts_programs_have_their_own_names() {
        let program = Startable::host("/bin/rbash", Path::new("/bin/sh")).expect("a shell");
        for (name, expected) in
            [("rbash", "rbash"), ("/bin/rbash", "/bin/rbash"), ("bash", "/bin/rbash"), ("-rbash", "/bin/rbash")]
        {
            let start =
                Start { arguments: vec![name.into()], environment: Vec::new(), working: String::new(), spending: None };
            let text = format!("{:?}", program.command(&start));
            assert!(text.ends_with(&format!("\"{expected}\"")), "{name}: {text}");
        }
    }

    #[test]
    fn a_file_in_the_domains_reach_is_no_program() {
        let directory = tempfile::tempdir().expect("a directory");
        let (top, file) = (directory.path().join("top"), directory.path().join("top/sub/program"));
        std::fs::create_dir_all(top.join("sub")).expect("made");
        std::fs::write(&file, "").expect("written");
        let grant = |path: &Path, writable| vec![Preopen::open(path, "/x", writable).expect("a grant")];
        let program = Startable::host("p", &file).expect("a file");
        assert!(program.is_changeable(&grant(&top, true)) && program.is_changeable(&grant(&top.join("sub"), true)));
        assert!(!program.is_changeable(&grant(&top, false)) && !program.is_changeable(&[]));
        assert!(program.is_changeable(&[Preopen::file(&file, "/f", true).expect("a grant")]));
        let run = |runner: &Path| Startable::domain("p", &file, runner, Vec::new()).expect("a file");
        let in_domain = run(Path::new("/bin/sh"));
        assert!(!in_domain.is_changeable(&grant(&top, true)), "the runner verifies it");
        assert!(run(&file).is_changeable(&grant(&top, true)), "the runner runs with all rights");
        assert!(!run(&file).is_changeable(&grant(&top, false)));
        std::fs::remove_file(&file).expect("removed");
        assert!(program.is_changeable(&[]));
    }
}
