//! Network namespaces of threads, and pairs of veth devices between them.

use crate::fork;
use anyhow::{Context, ensure};
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs iproute2 in the namespace of this thread.
pub(super) fn ip(arguments: &str) -> anyhow::Result<String> {
    let run = Command::new("ip").args(arguments.split(' ')).output().context("`ip` of iproute2 is missing")?;
    ensure!(run.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&run.stderr).trim());
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}

/// Moves this thread to a new network namespace.
pub(super) fn enter_new() -> anyhow::Result<()> {
    fork::new_network().context("no network namespace: this needs root")?;
    ip("link set lo up").map(drop)
}

/// Makes a pair of devices: `out` here, and `in` in the namespace of another thread.
pub(super) fn pair(number: u8, thread: i32) -> anyhow::Result<()> {
    ip(&format!(
        "link add out{number} address 02:00:00:00:0{number}:01 type veth peer name in{number} address 02:00:00:00:0{number}:02"
    ))?;
    ip(&format!("link set in{number} netns {thread}"))?;
    ip(&format!("addr add 10.77.{number}.1/24 dev out{number}"))?;
    ip(&format!("link set out{number} up"))?;
    ip(&format!("neigh add 10.77.{number}.2 lladdr 02:00:00:00:0{number}:02 dev out{number}")).map(drop)
}

/// Waits until a device sends frames.
pub(super) fn await_queue(device: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let state = ip(&format!("-o link show {device}"))?;
        if state.contains("LOWER_UP") && !state.contains("qdisc noop ") {
            return Ok(());
        }
        ensure!(start.elapsed() < Duration::from_secs(10), "{device} does not come up");
        std::thread::sleep(Duration::from_millis(10));
    }
}
