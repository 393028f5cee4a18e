//! Handlers on the ring in this process: the cost of a message without a network.

use super::handlers::{self, Objects};
use super::{Row, Table, median_of};
use sfi_ash::back::Backend;
use sfi_ash::back::ring::{Injector, Ring, Sent, ring};
use sfi_ash::engine::{Engine, Host, Message};
use sfi_ash::handler::{Handler, HandlerSpec};
use sfi_ash::native::NativeHandler;
use sfi_ash::packet::Datagram;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Messages of one sample.
const MESSAGES: u32 = 64;

/// An application that expects to be left alone.
struct App(u64);

impl Host for App {
    fn normal(&mut self, _: &Message<'_>) {
        self.0 += 1;
    }
    fn wake(&mut self, _: &str, _: u32) {}
}

/// An engine with one handler.
struct Local {
    injector: Injector,
    engine: Engine<Ring>,
    sent: Sent,
    app: App,
}

impl Local {
    fn new(spec: HandlerSpec, native: Option<NativeHandler>) -> anyhow::Result<Self> {
        let (injector, ring, sent) = ring(128, 8192)?;
        let mut engine = Engine::new(ring, Duration::from_secs(1), BTreeMap::new());
        let backend = engine.backend();
        let handler = match native {
            Some(code) => Handler::native(spec, code)?,
            None => Handler::new(spec, backend.memory(), backend.longest())?,
        };
        engine.install(handler)?;
        Ok(Self { injector, engine, sent, app: App(0) })
    }

    /// Returns the nanoseconds of a message, from the ring to the answer.
    fn sample(&mut self, frame: &[u8]) -> anyhow::Result<f64> {
        for _ in 0..MESSAGES {
            self.injector.inject(frame)?;
        }
        let start = Instant::now();
        let handled = self.engine.poll(&mut self.app)?;
        let time = start.elapsed();
        let answers = self.sent.try_iter().count();
        anyhow::ensure!(handled == MESSAGES as usize && answers == handled && self.app.0 == 0, "a handler declined");
        Ok(time.as_nanos() as f64 / f64::from(MESSAGES))
    }
}

fn message(data: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut frame = Vec::new();
    let addresses = Datagram {
        from_mac: [2, 0, 0, 0, 0, 1],
        to_mac: [2, 0, 0, 0, 0, 2],
        from: "10.77.0.1:4000".parse()?,
        to: "10.77.0.2:7777".parse()?,
    };
    addresses.write(data, &mut frame)?;
    Ok(frame)
}

/// Measures all handlers on all messages, interleaved.
pub(super) fn measure(objects: &[Objects], rounds: u32) -> anyhow::Result<Table> {
    let write = |length: u32| {
        let head = [0_u32.to_le_bytes(), length.to_le_bytes()].concat();
        message(&[head, vec![7; length as usize]].concat())
    };
    let messages = [message(&1_u64.to_le_bytes())?, write(40)?, write(4096)?];
    let mut columns = vec!["native".to_owned()];
    let mut engines = vec![[
        Local::new(handlers::native_spec("increment", 7777)?, Some(handlers::increment()))?,
        Local::new(handlers::native_spec("write", 7777)?, Some(handlers::write()))?,
    ]];
    for objects in objects {
        let make = |name, object: &[u8]| Local::new(handlers::sandboxed(name, 7777, objects, object)?, None);
        columns.push(objects.name());
        engines.push([make("increment", &objects.increment)?, make("write", &objects.write)?]);
    }
    let mut samples = vec![vec![Vec::new(); columns.len()]; messages.len()];
    for _ in 0..rounds {
        for (row, frame) in messages.iter().enumerate() {
            for (column, pair) in engines.iter_mut().enumerate() {
                samples[row][column].push(pair[usize::from(row > 0)].sample(frame)?);
            }
        }
    }
    let names = ["increment", "write of 40 bytes", "write of 4,096 bytes"];
    let rows = names.into_iter().zip(samples);
    let rows =
        rows.map(|(name, samples)| Row { name: name.into(), values: samples.into_iter().map(median_of).collect() });
    Ok(Table {
        name: "ring",
        title: "A message on the ring in the process, from the ring to the answer".into(),
        unit: "ns",
        columns,
        rows: rows.collect(),
    })
}
