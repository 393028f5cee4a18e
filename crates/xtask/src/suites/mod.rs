//! `cargo xtask suites`

mod packages;
mod report;
mod results;
mod side;
mod stored;

use crate::setup::{self, cargo};
use crate::sources;
use anyhow::{Context, ensure};
use packages::Suite;
use results::Outcome;
use side::{Place, Side};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use stored::{Row, Stored};

/// Runs the test suites of other projects (`make check`), natively and in domains, and compares
/// them test by test. Fails if a test passes natively and not in a domain, without a known reason.
#[derive(clap::Args)]
pub struct Args {
    /// Only packages whose names contain one of these words
    #[arg(value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Put the results in the place of these packages' last ones, in docs/measured/suites.json and
    /// docs/SUITES.md
    #[arg(long)]
    write: bool,
}

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::BASE)?;
    setup::ensure(setup::AUTOTOOLS)?;
    let suites = packages::chosen(&args.packages);
    ensure!(!suites.is_empty(), "no package of the suites has such a name");
    let debian: Vec<&str> = suites.iter().filter(|suite| suite.from.is_none()).map(|suite| suite.package).collect();
    sources::fetch(&debian)?;
    for suite in &suites {
        suite.from.map_or(Ok(()), |from| sources::fetch_crate(suite.package, from))?;
    }
    let sources = sources::directory()?;
    let target = sources.parent().context("the sources lie in no target directory")?;
    // `sfi` is built by the profile of this program.
    let own = std::env::current_exe()?;
    let profile = own.parent().context("xtask does not run from a target directory")?;
    let name = profile.file_name().filter(|name| *name != "debug").unwrap_or("dev".as_ref());
    let build = Command::new(cargo()).args(["build", "--package", "sfi-cli", "--profile"]).arg(name).status();
    ensure!(build.context("cannot run cargo")?.success(), "sfi does not build");
    let (builds, sfi) = (target.join("suites"), profile.join("sfi"));
    let place = Place { sources: &sources, builds: &builds, sfi: &sfi };
    fs::create_dir_all(&builds)?;
    let (mut rows, mut good) = (Vec::new(), true);
    for suite in suites {
        let row = match row(&place, suite, date()?) {
            Ok(row) => row,
            Err(error) => {
                eprintln!("{}: {error:#}", suite.package);
                good = false;
                continue;
            }
        };
        for (test, outcome) in row.unexplained() {
            eprintln!("{}: {test} passes natively and {outcome} in a domain", row.package);
            good = false;
        }
        // Each row is kept at once, whatever becomes of the other packages.
        if args.write {
            let all = Stored::read()?.with(vec![row.clone()]);
            all.write()?;
            fs::write(setup::root()?.join("docs/SUITES.md"), report::document(&all))?;
        }
        rows.push(row);
    }
    print!("{}", report::document(&Stored::new(rows)));
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a suite on both sides.
///
/// # Errors
/// A side was not built, or no test passes natively.
fn row(place: &Place<'_>, suite: &'static Suite, date: String) -> anyhow::Result<Row> {
    let side = |side: Side| {
        eprintln!("{} ({})", suite.package, side.name());
        place.run(suite, side).with_context(|| format!("{} side", side.name()))
    };
    let sides = [side(Side::Native)?, side(Side::Domain)?];
    let passed = results::count(&sides[0].results, Outcome::Pass);
    ensure!(passed > 0, "no test passes natively; the output is in {}", place.builds.display());
    let version = match suite.from {
        Some((name, version)) => format!("{version} ({name})"),
        None => version(&place.sources.join(suite.package)),
    };
    Ok(Row::new(suite, version, date, &sides))
}

/// Returns the version of a package's sources, from the name of their archive.
fn version(sources: &Path) -> String {
    let entries = fs::read_dir(sources.join(".archives")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut versions: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".dsc")?.split_once('_')?.1.to_owned())).collect();
    versions.sort_unstable();
    versions.pop().unwrap_or_default()
}

/// Returns the day, as `date` prints it.
fn date() -> anyhow::Result<String> {
    let output = Command::new("date").arg("+%Y-%m-%d").output().context("cannot run date")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
