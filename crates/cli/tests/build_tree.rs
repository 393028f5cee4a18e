//! Programs that are run by their names, in a build tree and elsewhere.
//!
//! Needs musl-gcc (Debian package musl-tools). A missing compiler fails the tests.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Bench, succeed};

const READS: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    int main(int argc, char **argv) {\n\
        char here[4096], line[64] = \"\"; const char *value = getenv(\"TREE_KIND\");\n\
        FILE *in = fopen(argv[1], \"r\"), *out = fopen(\"made\", \"w\");\n\
        if (in) fgets(line, sizeof line, in);\n\
        printf(\"%s|%d|%s|%s|%s\\n\", line, out != 0, value ? value : \"-\", getcwd(here, sizeof here), argv[0]);\n\
        return argc - 2;\n\
    }\n";

/// Looks at the root, at each directory on the way to the working directory, and at names that lead
/// through them.
const LOOKS: &str = r#"#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static void tell(const char *what, const char *name, int result) {
    printf("%s %s: %s\n", what, name, result < 0 ? strerror(errno) : "good");
}
static void look(const char *name, struct stat *at) {
    char text[64];
    struct stat link;
    tell("stat", name, stat(name, at));
    tell("lstat", name, lstat(name, &link));
    printf("%d %d\n", S_ISDIR(at->st_mode), at->st_ino == link.st_ino);
    tell("access", name, access(name, X_OK));
    tell("readlink", name, readlink(name, text, sizeof text));
    tell("mkdir", name, mkdir(name, 0700));
}
int main(void) {
    char here[4096], place[4096];
    struct stat root, at, last;
    getcwd(here, sizeof here);
    look("/", &root);
    last = root;
    const char *same[] = {"///", "/.", "/..", "//../."};
    for (int i = 0; i < 4; i++) { look(same[i], &at); printf("%d\n", at.st_ino == root.st_ino); }
    for (char *end = here; (end = strchr(end + 1, '/')); ) {
        *end = 0;
        look(here, &at);
        printf("%d\n", at.st_ino == last.st_ino);
        if (strchr(end + 1, '/')) {
            snprintf(place, sizeof place, "%s/./..", here);
            struct stat up;
            look(place, &up);
            printf("%d\n", up.st_ino == last.st_ino);
        }
        last = at;
        tell("chdir", here, chdir(here));
        printf("%s\n", getcwd(place, sizeof place));
        *end = '/';
    }
    tell("chdir", here, chdir(here));
    const char *real[] = {".", "../../link/tests", "inside", "/", "up", "up/", "/none"};
    for (int i = 0; i < 7; i++) printf("%s: %s\n", real[i], realpath(real[i], place) ? place : strerror(errno));
    tell("rmdir", "/", rmdir("/"));
    tell("unlink", "/none/x", unlink("/none/x"));
    return 0;
}
"#;

/// Runs the program by its name in a directory of the bench.
fn run(bench: &Bench, directory: &Path, flags: Option<&str>, argument: &Path) -> Output {
    let own = Path::new(env!("CARGO_BIN_EXE_sfi")).parent().expect("a directory");
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap_or_default());
    let mut program = Command::new(bench.path("prog"));
    program.arg(argument).current_dir(directory).env("PATH", path).env("TREE_KIND", "oak").env_remove("SFI_RUN_FLAGS");
    flags.map(|flags| program.env("SFI_RUN_FLAGS", flags));
    program.output().expect("runs")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Names are passed part by part from the root on, as realpath does.
#[test]
fn directories_above_a_build_tree_are_there() {
    let bench = Bench::new();
    let top = bench.directory().canonicalize().expect("a path");
    let tests = top.join("build/tests");
    std::fs::create_dir_all(&tests).expect("made");
    bench.write("build/config.log", b"");
    bench.write("build/tests/inside", b"");
    std::os::unix::fs::symlink("/", tests.join("up")).expect("a link");
    bench.write("looks.c", LOOKS.as_bytes());
    succeed(support::sfi(&bench, &["cc"]).args(["-O2", "looks.c", "-o", "prog"]));
    succeed(Command::new("musl-gcc").args(["-O2", "-o", "native", "looks.c"]).current_dir(&top));
    let expected = succeed(Command::new(top.join("native")).current_dir(&tests));
    let domain = run(&bench, &tests, None, Path::new(""));
    assert_eq!(out(&domain), expected.trim_end());
    assert!(expected.contains(&format!("\n.: {}\n", tests.display())), "{expected}");
}

#[test]
fn a_build_tree_is_granted_and_nothing_else() {
    let bench = Bench::new();
    let top = bench.directory().canonicalize().expect("a path");
    let (tests, source): (PathBuf, PathBuf) = (top.join("build/tests"), top.join("source"));
    [&tests, &source].iter().for_each(|directory| std::fs::create_dir_all(directory).expect("made"));
    bench.write("reads.c", READS.as_bytes());
    bench.write("source/data", b"data");
    bench.write("outside", b"outside");
    bench.write("build/inside", b"inside");
    succeed(support::sfi(&bench, &["cc"]).args(["-O2", "reads.c", "-o", "prog"]));
    let name = bench.path("prog").display().to_string();
    // Without a tree nothing is granted.
    let nothing = format!("|0|-|/|{name}");
    assert_eq!(out(&run(&bench, &tests, None, Path::new("../inside"))), nothing);
    bench.write("build/config.log", b"  $ ../source/configure CC=x\n");
    let here = tests.display();
    let granted = |line: &str| format!("{line}|1|oak|{here}|{name}");
    let sources = format!("--build-tree --dir-read {}", source.display());
    for (argument, line, with) in [
        ("../inside", "inside", "inside"),
        ("../../source/data", "", "data"),
        ("../../outside", "", ""),
        ("/etc/passwd", "", ""),
    ] {
        assert_eq!(out(&run(&bench, &tests, None, Path::new(argument))), granted(line), "{argument}");
        let named = run(&bench, &tests, Some(&sources), Path::new(argument));
        assert_eq!((out(&named), named.stderr.len()), (granted(with), 0), "{argument}");
    }
    assert_eq!(out(&run(&bench, &tests, Some(&sources), &source.join("data"))), granted("data"));
    // The program cannot change the sources.
    let made = run(&bench, &source, None, Path::new("data"));
    assert_eq!((out(&made), source.join("made").exists()), (nothing.clone(), false));
    // `SFI_RUN_FLAGS` replaces the default, even if it is empty.
    assert_eq!(out(&run(&bench, &tests, Some(""), Path::new("../inside"))), nothing);
    // The shell finds the program in PATH, and the program gets the name that was typed.
    let own = Path::new(env!("CARGO_BIN_EXE_sfi")).parent().expect("a directory");
    let path = format!("{}:{}:{}", own.display(), top.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    let found = succeed(shell.args(["-c", "prog none"]).env("PATH", path).env("SFI_RUN_FLAGS", ""));
    assert_eq!(found, "|0|-|/|prog\n");
}
