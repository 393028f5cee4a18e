//! The evaluation of the paper on handlers, today: messages on the ring in the process, and round
//! trips over veth between two network namespaces.
//!
//! It needs gcc. The network needs root and iproute2. A part that cannot be measured is reported
//! with its reason.

mod ebpf;
mod handlers;
mod local;
mod net;
mod peers;
mod wire;

use handlers::Objects;
use sfi_contract::Mode;

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// A value for each column.
    pub values: Vec<f64>,
}

/// A table of medians.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// A name for programs.
    pub name: &'static str,
    /// A title for people.
    pub title: String,
    /// The unit of all values.
    pub unit: &'static str,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// All that was measured.
    pub tables: Vec<Table>,
    /// Circumstances.
    pub notes: Vec<String>,
    /// Parts that could not be measured, with the reasons.
    pub skipped: Vec<String>,
}

/// The parts of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Rounds of each measurement.
    pub rounds: u32,
    /// Measure round trips over veth.
    pub network: bool,
    /// Numbers of runnable processes of the figure.
    pub processes: Vec<usize>,
}

fn median_of(mut samples: Vec<f64>) -> f64 {
    crate::median(&mut samples)
}

/// Measures everything that can be measured here.
///
/// # Errors
/// If handlers cannot be compiled or loaded.
pub fn measure(options: &Options) -> anyhow::Result<Report> {
    let objects = [Objects::build(Mode::Write)?, Objects::build(Mode::Full)?];
    let mut report =
        Report { tables: vec![local::measure(&objects, options.rounds.max(1) * 20)?], ..Report::default() };
    if !options.network {
        report.skipped.push("round trips: not asked for".into());
        return Ok(report);
    }
    // The namespace goes with its thread.
    let options = options.clone();
    let thread = std::thread::spawn(move || {
        if let Err(error) = network(&objects, &options, &mut report) {
            report.skipped.push(format!("round trips: {error:#}"));
        }
        report
    });
    thread.join().map_err(|panic| std::panic::resume_unwind(panic))
}

/// Measures round trips.
fn network(objects: &[Objects], options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if std::thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
        crate::fork::pin(0)?;
    }
    let server = wire::Server::start()?;
    report.notes.push(server.note.clone());
    report.tables.push(wire::round_trips(&server, objects, options.rounds)?);
    if !options.processes.is_empty() {
        report.tables.push(wire::figure(&server, objects, &options.processes, options.rounds)?);
    }
    Ok(())
}
