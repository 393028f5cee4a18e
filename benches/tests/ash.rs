//! The measurement of handlers ends, on all processors and on one, and measures round trips.
//!
//! It runs in a child process, because threads with a real-time priority that wait for each other
//! would never end.

use sfi_benches::ash::{Options, measure};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Says to a child what it is.
const CHILD: &str = "SFI_TEST_CHILD";
/// The longest run.
const MOST: Duration = Duration::from_secs(120);

/// Waits for a child, and ends it if it takes too long.
fn wait(child: &mut Child) -> Option<std::process::ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < MOST {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// Runs the test again in a process, on all processors or on one.
fn run(test: &str, single: bool) {
    let mut command = Command::new(if single { "taskset".into() } else { std::env::current_exe().unwrap() });
    if single {
        let set = rustix::thread::sched_getaffinity(None).unwrap();
        let first = (0..1024).find(|processor| set.is_set(*processor)).unwrap();
        command.args(["-c", &first.to_string()]).arg(std::env::current_exe().unwrap());
    }
    command.args([test, "--exact", "--nocapture"]).env(CHILD, "1").stdout(Stdio::piped());
    let mut child = command.spawn().expect("util-linux is needed for these tests");
    let status = wait(&mut child).expect("the measurement does not end");
    assert!(status.success(), "{status}");
}

/// The tables that need no network.
const LOCAL: [&str; 6] = ["ring", "copies", "loops", "tcp", "tcp_answer", "tcp_work"];

/// The tables that need one.
const NETWORK: [&str; 6] = ["round_trip", "figure", "tcp_veth", "tcp_veth_answer", "work_veth", "work_veth_answer"];

/// Measures everything once, and checks that nothing is missing.
fn once(name: &str) {
    let report = measure(&Options { rounds: 1, network: true, processes: vec![0, 2] }).unwrap();
    let tables: Vec<&str> = report.tables.iter().map(|table| table.name).collect();
    // No root, or a kernel without these devices, programs or sockets.
    let refusals =
        ["this needs root", "Unknown device type", "os error 1)", "os error 38)", "os error 95)", "os error 97)"];
    if report.skipped.iter().any(|part| refusals.iter().any(|refusal| part.contains(refusal))) {
        eprintln!("SKIPPED {name}: {:?}", report.skipped);
        assert_eq!(tables, LOCAL);
        return;
    }
    assert_eq!(report.skipped, [""; 0]);
    assert_eq!(tables, [&LOCAL[..], &NETWORK].concat());
    for table in &report.tables {
        for row in &table.rows {
            assert_eq!(row.values.len(), table.columns.len(), "{}", table.name);
            assert!(row.values.iter().all(|value| value.is_finite() && *value > 0.0), "{}: {row:?}", table.name);
        }
    }
}

#[test]
fn the_measurement_ends_on_all_processors_and_on_one() {
    let name = "the_measurement_ends_on_all_processors_and_on_one";
    if std::env::var_os(CHILD).is_some() {
        return once(name);
    }
    run(name, false);
    run(name, true);
}
