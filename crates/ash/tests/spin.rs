//! An engine polls for some time before it blocks.

mod common;
use common::{App, datagram};
use sfi_ash::back::ring::{Ring, ring};
use sfi_ash::back::{Area, Backend};
use sfi_ash::engine::{DEFAULT_TICK, Engine};
use sfi_ash::head::Frame;
use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// A ring that counts how often it was waited for.
struct Counting {
    ring: Ring,
    waits: u32,
}

impl Backend for Counting {
    fn area(&self) -> &Area {
        self.ring.area()
    }
    fn receive(&mut self, most: usize, frames: &mut Vec<Frame>) -> io::Result<()> {
        self.ring.receive(most, frames)
    }
    fn release(&mut self, frame: Frame) {
        self.ring.release(frame);
    }
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.ring.send(frame)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.ring.flush()
    }
    fn wait(&mut self, time: Duration) -> io::Result<bool> {
        self.waits += 1;
        self.ring.wait(time)
    }
}

/// Waits for a message that comes after 20 ms, and returns the number of times that it blocked.
fn waits(spin: Duration) -> u32 {
    let (mut injector, ring, _sent) = ring(16, 2048).unwrap();
    let mut engine = Engine::new(Counting { ring, waits: 0 }, DEFAULT_TICK, BTreeMap::new());
    engine.set_spin(spin);
    let sender = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        injector.inject(&datagram(7777, b"late")).unwrap();
    });
    assert_eq!(engine.wait(&mut App::default(), Duration::from_secs(60)).unwrap(), 1);
    sender.join().unwrap();
    engine.backend().waits
}

#[test]
fn a_message_that_comes_while_the_engine_polls_wakes_nobody() {
    assert_eq!(waits(Duration::from_secs(60)), 0);
    assert_eq!(waits(Duration::from_millis(1)), 1, "it blocks after that");
    assert_eq!(waits(Duration::ZERO), 1, "it never polls");
}

#[test]
fn polling_is_a_part_of_the_time() {
    let (_injector, ring, _sent) = ring(16, 2048).unwrap();
    let mut engine = Engine::new(ring, DEFAULT_TICK, BTreeMap::new());
    for spin in [Duration::ZERO, Duration::from_millis(10), Duration::from_secs(3600)] {
        engine.set_spin(spin);
        let start = Instant::now();
        assert_eq!(engine.wait(&mut App::default(), Duration::from_millis(20)).unwrap(), 0);
        assert!((20..3000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    }
}
