//! Whole programs of other projects, on a stock libc: equal output, status and files natively
//! (static musl) and in a domain.
//!
//! The objects are linked twice: as a native executable, and by `sfi cc`. `SFI_PROGRAMS=all`
//! (`cargo xtask programs`) adds the long ones and runs everything in both modes.
//! `cargo xtask sources` fetches the sources. The distribution's own test programs run where there
//! are any.

mod build;
mod compare;
mod languages;
mod makefiles;
mod table;

use libtest_mimic::{Arguments, Trial};
use sfi_contract::Mode;

fn main() {
    let arguments = Arguments::from_args();
    let all = std::env::var("SFI_PROGRAMS").is_ok_and(|v| v == "all");
    let mut trials = Vec::new();
    for case in table::CASES.iter().filter(|case| all || !case.long) {
        trials.push(Trial::test(case.name, move || {
            compare::case(case, &[Mode::Write, Mode::Full]).map_err(|e| format!("{e:#}").into())
        }));
    }
    trials.extend(languages::tcc(all));
    type Test = fn() -> anyhow::Result<()>;
    let builds: [(&str, Test, bool); 4] = [
        ("zlib-configure", makefiles::zlib, false),
        ("bzip2-make", makefiles::bzip2, false),
        ("libpng-autotools", makefiles::libpng, false),
        ("xz-autotools", makefiles::xz, true),
    ];
    for (name, test, _) in builds.into_iter().filter(|(.., long)| all || !long) {
        trials.push(Trial::test(name, move || test().map_err(|e| format!("{e:#}").into())));
    }
    for seed in 1..=if all { 100 } else { 24 } {
        let test = move || sfi_tests::csmith::random_program(seed).map_err(|e| format!("seed {seed}: {e:#}").into());
        trials.push(Trial::test(format!("csmith-{seed}"), test));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Err(error) = sfi_tests::csmith::summary() {
        println!("{error}");
        std::process::exit(1);
    }
    conclusion.exit()
}
