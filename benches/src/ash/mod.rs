//! The evaluation of the paper on handlers, today: messages on the ring in the process, and round
//! trips over veth between two network namespaces.
//!
//! It needs gcc. The network needs root and iproute2. A part that cannot be measured is reported
//! with its reason.

mod ebpf;
mod handlers;
mod local;
mod memory;
mod net;
mod peers;
mod stream;
mod tcp;
mod wire;

use anyhow::Context;
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
    let kinds = [(Mode::Write, false), (Mode::Full, false), (Mode::Write, true)];
    let objects: Vec<Objects> =
        kinds.into_iter().map(|(mode, budget)| Objects::build(mode, budget)).collect::<anyhow::Result<_>>()?;
    let mut report =
        Report { tables: vec![local::measure(&objects, options.rounds.max(1) * 20)?], ..Report::default() };
    report.tables.extend(memory::measure(options.rounds)?);
    let kinds: Vec<_> =
        objects.iter().map(|objects| (objects.name(), objects.mode, objects.budget.is_some())).collect();
    report.tables.extend(tcp::measure(&kinds, options.rounds)?);
    if crate::tcp::Avx2::detect().is_none() {
        report.skipped.push("the native receiver with AVX2: the processor has none".into());
    }
    if !options.network {
        report.skipped.push("round trips: not asked for".into());
        return Ok(report);
    }
    // The namespace goes with its thread.
    let options = options.clone();
    let thread = std::thread::spawn(move || {
        if let Err(error) = network(&objects, &kinds, &options, &mut report) {
            report.skipped.push(format!("round trips: {error:#}"));
        }
        report
    });
    thread.join().map_err(|panic| std::panic::resume_unwind(panic))
}

/// Measures round trips.
fn network(
    objects: &[Objects],
    kinds: &[(String, Mode, bool)],
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    // Threads inherit the processors of this one, so they are chosen before it is bound to one.
    let place = Place::choose(&crate::fork::processors()?)?;
    crate::fork::pin(place.client)?;
    report.notes.push(place.note());
    let server = wire::Server::start(place)?;
    report.notes.push(server.note.clone());
    report.tables.push(wire::round_trips(&server, objects, options.rounds)?);
    if !options.processes.is_empty() {
        report.tables.push(wire::figure(&server, objects, &options.processes, options.rounds)?);
    }
    report.tables.extend(stream::measure(&server, place, kinds, options.rounds)?);
    Ok(())
}

/// The processors of client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    client: usize,
    server: usize,
}

impl Place {
    /// Takes two processors, or one for both.
    fn choose(processors: &[usize]) -> anyhow::Result<Self> {
        let client = *processors.first().context("no processor")?;
        Ok(Self { client, server: processors.get(1).copied().unwrap_or(client) })
    }

    /// Says whether client and server share a processor. Both have the same real-time priority, so
    /// one that polls must then let the other one run.
    fn is_shared(self) -> bool {
        self.client == self.server
    }

    fn note(self) -> String {
        match self.is_shared() {
            true => "client and server share a processor: those that poll yield".to_owned(),
            false => "client and server have a processor each".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_and_server_have_a_processor_each_if_there_are_two() {
        let choose = |processors: &[usize]| Place::choose(processors).map(|place| (place.client, place.server));
        assert_eq!(choose(&[0, 1, 2]).unwrap(), (0, 1));
        assert_eq!(choose(&[3, 7]).unwrap(), (3, 7));
        assert_eq!(choose(&[5]).unwrap(), (5, 5));
        assert!(choose(&[]).is_err());
        assert!(Place { client: 5, server: 5 }.is_shared() && !Place { client: 0, server: 1 }.is_shared());
    }
}
