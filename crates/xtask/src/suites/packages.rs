//! The suites: one description for each package.

use super::results::Format;

/// The flags with which programs run in domains.
pub const FLAGS: &str = "--build-tree --program /bin/sh --net loopback --threads 16";
/// The flags of a shell. It forks, so it has one thread. It looks for programs in directories.
const SHELL: &str = "--build-tree --dir /tmp --dir-read /etc --dir-read /usr/bin --dir-read /usr/bin::/bin \
    --program /bin/cat --program /bin/echo --program /bin/sh --program /bin/true --program /usr/bin/cat \
    --program /usr/bin/chmod --program /usr/bin/cmp --program /usr/bin/cp --program /usr/bin/date \
    --program /usr/bin/env --program /usr/bin/false --program /usr/bin/grep --program /usr/bin/head \
    --program /usr/bin/id --program /usr/bin/ln --program /usr/bin/ls --program /usr/bin/mkdir \
    --program /usr/bin/mv --program /usr/bin/od --program /usr/bin/perl --program /usr/bin/rm \
    --program /usr/bin/sed --program /usr/bin/sh --program /usr/bin/sleep --program /usr/bin/sort \
    --program /usr/bin/tail --program /usr/bin/touch --program /usr/bin/tr --program /usr/bin/true \
    --program /usr/bin/tty --program /usr/bin/uname --program /usr/bin/wc";

/// A package with a test suite of its own.
pub struct Suite {
    /// Debian source package, or the name of a project whose sources are those of a crate.
    pub package: &'static str,
    /// The crate that has its sources, and the version.
    pub from: Option<(&'static str, &'static str)>,
    /// The folder of the sources in which `configure` and `make` run. Empty: the top.
    pub folder: &'static str,
    /// Shell commands that complete the sources. Empty: nothing is missing.
    pub prepare: &'static str,
    /// Arguments of `configure`. `None`: the package has a Makefile instead. `{root}` is the
    /// directory in which earlier suites of the same side installed.
    pub configure: Option<&'static [&'static str]>,
    /// Arguments of the `make` that builds.
    pub build: &'static [&'static str],
    /// Arguments of the `make` that tests.
    pub check: &'static [&'static str],
    /// Commands that test, in place of `make`. Each is a test, which passes if its exit status is
    /// 0.
    pub commands: &'static [&'static str],
    /// The flags with which its programs run in domains.
    pub flags: &'static str,
    /// The form of its results.
    pub format: Format,
    /// Limits the tests of a side. Minutes.
    pub minutes: u64,
    /// Installs it for later suites.
    pub install: bool,
    /// The tests of the package that do not run, and why. Empty: all run.
    pub part: &'static str,
    /// Tests that pass natively and cannot in a domain, with the reason.
    pub known: &'static [&'static [Known]],
}

/// A test that differs by the sandbox's design.
pub struct Known {
    /// The test's name.
    pub test: &'static str,
    /// The reason.
    pub why: &'static str,
}

/// The usual package: `configure`, `make`, `make check`.
const USUAL: Suite = Suite {
    package: "",
    from: None,
    folder: "",
    prepare: "",
    configure: Some(&["--disable-shared"]),
    build: &[],
    check: &["check"],
    commands: &[],
    flags: FLAGS,
    format: Format::Lines,
    minutes: 20,
    install: false,
    part: "",
    known: &[],
};

const OVERFLOW: &str = "overflows its stack and handles that; the control stack overflows first and ends the program";
const CLOSED: &str = "stores to a closed page, and a program with several threads closes none (passes with one thread)";

const MEMORY: &str = "allocates more than the heap of 1 GiB holds, and 2.6 GiB do not fit a window";

const fn known(test: &'static str, why: &'static str) -> Known {
    Known { test, why }
}

/// Tests of gnulib, which several packages carry.
const GNULIB: &[Known] = &[
    known("gnulib-tests/test-c-stack.sh", OVERFLOW),
    known("gnulib-tests/test-c-stack2.sh", OVERFLOW),
    known("gnulib-tests/test-canonicalize-lgpl", "makes a symbolic link to a place above its directory"),
    known(
        "gnulib-tests/test-sigsegv-catch-segv1",
        "returns from a handler to its fault at a closed page; no handler can, and no page closes with several threads",
    ),
    known("gnulib-tests/test-sigsegv-catch-segv2", CLOSED),
    known("gnulib-tests/test-sigsegv-catch-stackoverflow1", OVERFLOW),
    known("gnulib-tests/test-sigsegv-catch-stackoverflow2", OVERFLOW),
];

const QUICKJS: &[Known] = &[
    known("api-test", "makes a file in /tmp, which no flag grants (passes with `--dir /tmp`)"),
    known("tests/test_std.js", "makes a file in /tmp, which no flag grants, and forks with several threads"),
];

const INNER: &str = "starts the shell again, and a program that another one started starts nothing";
const UNWAITED: &str = "ends while its forks run, and they end with it";

const MKSH: &[Known] = &[
    known("bashiop-5", INNER),
    known("cd-pe", INNER),
    known("fd-cloexec-2", "programs of this machine get standard input, output and error, and no other descriptor"),
    known("fd-cloexec-3", INNER),
    known("heredoc-9", INNER),
    known("heredoc-tmpfile-4", UNWAITED),
    known("heredoc-tmpfile-5", UNWAITED),
    known("heredoc-tmpfile-7", UNWAITED),
    known("heredoc-tmpfile-8", UNWAITED),
    known("oksh-varfunction-mod1", INNER),
    known("pipeline-2", INNER),
    known("pipeline-4", INNER),
    known("regression-48", INNER),
    known("utf8bom-1", INNER),
    known("utf8bom-2", INNER),
    known("xtrace-1", INNER),
    known("xxx-exec-environment-1", INNER),
    known("xxx-exec-environment-2", INNER),
    known(
        "xxx-multi-assignment-posix-subassign",
        "programs of this machine get no variables but those that are granted",
    ),
];

/// All suites, in an order in which the libraries that others need come first.
pub const SUITES: &[Suite] = &[
    Suite { package: "jansson", ..USUAL },
    Suite { package: "expat", folder: "expat", configure: Some(&["--disable-shared", "--without-docbook"]), ..USUAL },
    Suite { package: "sed", configure: Some(&["--disable-nls"]), known: &[GNULIB], ..USUAL },
    Suite { package: "gzip", configure: Some(&[]), ..USUAL },
    Suite { package: "diffutils", configure: Some(&["--disable-nls"]), known: &[GNULIB], ..USUAL },
    Suite { package: "libsodium", known: &[&[known("test/default/sodium_utils2", CLOSED)]], ..USUAL },
    Suite {
        package: "pcre2",
        configure: Some(&["--disable-shared", "--enable-pcre2-16", "--enable-pcre2-32"]),
        ..USUAL
    },
    Suite {
        package: "gmp",
        // Debian's source is without the manual, and `configure` wants its makefile.
        prepare: "mkdir doc && echo 'all check install install-am:' > doc/Makefile.in",
        configure: Some(&["--disable-shared", "--prefix={root}"]),
        install: true,
        ..USUAL
    },
    Suite {
        package: "mpfr4",
        configure: Some(&["--disable-shared", "--disable-float128", "--with-gmp={root}", "--prefix={root}"]),
        // `configure` links the tests with it all the same.
        build: &["MPFR_LIBQUADMATH="],
        check: &["check", "MPFR_LIBQUADMATH="],
        install: true,
        part: "numbers of 128 bits: musl has no libquadmath",
        ..USUAL
    },
    Suite {
        package: "mpclib3",
        configure: Some(&["--disable-shared", "--with-gmp={root}", "--with-mpfr={root}"]),
        ..USUAL
    },
    Suite {
        package: "nettle",
        configure: Some(&[
            "--disable-shared",
            "--disable-documentation",
            "--disable-openssl",
            "--with-include-path={root}/include",
            "--with-lib-path={root}/lib",
        ]),
        build: &["SUBDIRS=tools testsuite"],
        check: &["check", "SUBDIRS=tools testsuite"],
        part: "the examples, so `pkcs1-conv` fails on both sides: one of them reads the clock by `rdtsc`",
        ..USUAL
    },
    Suite {
        package: "libtasn1-6",
        configure: Some(&["--disable-shared", "--disable-doc", "--disable-valgrind-tests"]),
        ..USUAL
    },
    Suite { package: "libonig", ..USUAL },
    Suite {
        package: "libxml2",
        configure: Some(&["--disable-shared", "--without-python", "--without-zlib", "--without-lzma"]),
        build: &["testapi", "testchar", "testdict", "testrecurse", "testlimits"],
        commands: &["./testapi", "./testchar", "./testdict", "./testrecurse", "./testlimits"],
        part: "`runtest`: Debian's source is without most of its inputs",
        ..USUAL
    },
    Suite {
        package: "sqlite3",
        configure: Some(&["--disable-shared", "--disable-tcl", "--disable-load-extension"]),
        build: &["fuzzcheck"],
        commands: &[
            "./fuzzcheck test/fuzzdata1.db",
            "./fuzzcheck test/fuzzdata2.db",
            "./fuzzcheck test/fuzzdata3.db",
            "./fuzzcheck test/fuzzdata4.db",
            "./fuzzcheck test/fuzzdata5.db",
            "./fuzzcheck test/fuzzdata6.db",
            "./fuzzcheck test/fuzzdata7.db",
            "./fuzzcheck test/fuzzdata8.db",
        ],
        part: "all but `fuzzcheck`, which runs the statements of databases: the others need Tcl",
        ..USUAL
    },
    Suite {
        package: "libzstd",
        folder: "tests",
        configure: None,
        build: &["fuzzer", "zstreamtest", "invalidDictionaries", "legacy", "decodecorpus", "fullbench", "datagen"],
        commands: &[
            "./fuzzer -s1 -i300",
            "./zstreamtest -s1 -i300",
            "./invalidDictionaries",
            "./legacy",
            "./decodecorpus -s1 -t -T5",
            "./fullbench -i1 -B1000",
            "./datagen -g1M | md5sum | grep c66bfa224cb9ef62ff0ecdf998da7fbc",
        ],
        part: "the tests of the shell scripts, and most rounds of the random tests, which take hours",
        known: &[&[known("./fuzzer -s1 -i300", MEMORY), known("./zstreamtest -s1 -i300", MEMORY)]],
        ..USUAL
    },
    Suite {
        package: "mksh",
        prepare: concat!("cat > Makefile <<'END'\n", include_str!("mksh.mk"), "END\n"),
        configure: None,
        flags: SHELL,
        known: &[MKSH],
        ..USUAL
    },
    // Debian has no package of it in this release.
    Suite {
        package: "quickjs",
        from: Some(("rquickjs-sys", "0.14.0")),
        folder: "quickjs",
        prepare: concat!("cat > Makefile <<'END'\n", include_str!("quickjs.mk"), "END\n"),
        configure: None,
        known: &[QUICKJS],
        ..USUAL
    },
];

/// Returns the suites whose packages' names contain one of some words; without words all.
pub fn chosen(words: &[String]) -> Vec<&'static Suite> {
    let fits = |suite: &&Suite| words.is_empty() || words.iter().any(|word| suite.package.contains(word.as_str()));
    SUITES.iter().filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_has_one_suite() {
        let mut names: Vec<&str> = SUITES.iter().map(|suite| suite.package).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(chosen(&[]).len(), count);
        let words = ["mpfr".to_owned()];
        assert_eq!(chosen(&words).iter().map(|suite| suite.package).collect::<Vec<_>>(), ["mpfr4"]);
    }
}
