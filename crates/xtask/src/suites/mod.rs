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
use report::Row;
use side::{Place, Side};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Runs the test suites of other projects (`make check`), natively and in domains, and compares
/// them test by test. Fails if a test passes natively and not in a domain, without a known reason.
#[derive(clap::Args)]
pub struct Args {
    /// Only packages whose names contain one of these words
    #[arg(value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Write the results to docs/SUITES.md, beside the last ones of the other packages
    #[arg(long)]
    write: bool,
}

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::BASE)?;
    setup::ensure(setup::AUTOTOOLS)?;
    let suites = packages::chosen(&args.packages);
    ensure!(!suites.is_empty(), "no package of the suites has such a name");
    let names: Vec<&str> = suites.iter().map(|suite| suite.package).collect();
    sources::fetch(&names)?;
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
    let mut rows = Vec::new();
    for suite in suites {
        let row = row(&place, suite, date()?);
        stored::keep(&builds, &row)?;
        rows.push(row);
    }
    print!("{}", report::document(&rows));
    if args.write {
        let all: Vec<Row> = packages::SUITES.iter().filter_map(|suite| stored::earlier(&builds, suite)).collect();
        fs::write(setup::root()?.join("docs/SUITES.md"), report::document(&all))?;
    }
    let good = rows.iter().all(|row| row.sides.is_ok() && row.differences().1.is_empty());
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a suite on both sides, and tells the differences.
fn row(place: &Place<'_>, suite: &'static Suite, date: String) -> Row {
    let side = |side: Side| {
        eprintln!("{} ({})", suite.package, side.name());
        place.run(suite, side).map_err(|error| format!("{} side: {error:#}", side.name()))
    };
    let sides = side(Side::Native).and_then(|native| Ok([native, side(Side::Domain)?]));
    if let Err(error) = &sides {
        eprintln!("{}: {error}", suite.package);
    }
    let row = Row { suite, version: version(&place.sources.join(suite.package)), date, sides };
    for report::Difference { package, test, outcome } in row.differences().1 {
        eprintln!("{package}: {test} passes natively and {} in a domain", report::word(outcome));
    }
    row
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
