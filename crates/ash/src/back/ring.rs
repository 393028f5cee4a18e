//! The ring in this process: one thread injects frames, another handles them. It needs nothing of
//! the operating system, so it runs everywhere.

use crate::back::{Area, Backend};
use crate::head::Frame;
use sfi_loader::View;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Counters of a ring. The producer owns `head`, the consumer `tail`.
#[derive(Debug)]
struct Counters {
    head: AtomicU32,
    tail: AtomicU32,
    lengths: Box<[AtomicU32]>,
}

/// The side that injects frames.
#[derive(Debug)]
pub struct Injector {
    counters: Arc<Counters>,
    view: View,
    slot: usize,
    consumer: Option<Thread>,
}

/// A frame cannot be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInjected {
    /// All slots hold frames.
    #[error("the ring is full")]
    Full,
    /// The frame does not fit a slot.
    #[error("the frame is longer than a slot")]
    TooLong,
}

impl Injector {
    /// Puts a frame into the ring.
    ///
    /// # Errors
    /// [`NotInjected`].
    pub fn inject(&mut self, frame: &[u8]) -> Result<(), NotInjected> {
        if frame.len() > self.slot {
            return Err(NotInjected::TooLong);
        }
        let head = self.counters.head.load(Ordering::Relaxed);
        let count = self.counters.lengths.len() as u32;
        // The consumer has read all frames before its `tail`.
        if head.wrapping_sub(self.counters.tail.load(Ordering::Acquire)) >= count {
            return Err(NotInjected::Full);
        }
        let index = (head % count) as usize;
        self.view.write(index * self.slot, frame).expect("the slot lies in the memory");
        self.counters.lengths[index].store(frame.len() as u32, Ordering::Relaxed);
        self.counters.head.store(head.wrapping_add(1), Ordering::Release);
        self.consumer.as_ref().inspect(|consumer| consumer.unpark());
        Ok(())
    }

    /// Wakes this thread for each frame, so that it can wait for frames.
    pub fn wakes(&mut self, consumer: Thread) {
        self.consumer = Some(consumer);
    }
}

/// The side that handles frames.
#[derive(Debug)]
pub struct Ring {
    counters: Arc<Counters>,
    /// The longest frame fills a slot.
    area: Area,
    /// The next frame to hand out. Frames are released in the order in which they came.
    next: u32,
    out: SyncSender<Vec<u8>>,
}

/// Frames that handlers sent. Frames are lost while it is full.
pub type Sent = Receiver<Vec<u8>>;

/// Makes a ring of `slots` frames of at most `longest` bytes. `slots` is a power of two.
///
/// # Errors
/// The operating system's; an invalid argument for sizes that no ring has.
pub fn ring(slots: usize, longest: usize) -> io::Result<(Injector, Ring, Sent)> {
    let slot = longest.next_multiple_of(64);
    if !slots.is_power_of_two() || slots > 1 << 20 || longest == 0 || longest > 1 << 16 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let area = Area::new((slots * slot) as u64, slot)?;
    let lengths = (0..slots).map(|_| AtomicU32::new(0)).collect();
    let counters = Arc::new(Counters { head: AtomicU32::new(0), tail: AtomicU32::new(0), lengths });
    let injector = Injector { counters: Arc::clone(&counters), view: area.memory.view()?, slot, consumer: None };
    let (out, sent) = mpsc::sync_channel(slots);
    Ok((injector, Ring { counters, area, next: 0, out }, sent))
}

impl Backend for Ring {
    fn area(&self) -> &Area {
        &self.area
    }

    fn receive(&mut self, most: usize, frames: &mut Vec<Frame>) -> io::Result<()> {
        let head = self.counters.head.load(Ordering::Acquire);
        let count = self.counters.lengths.len() as u32;
        for _ in 0..most {
            if self.next == head {
                break;
            }
            let index = (self.next % count) as usize;
            let length = self.counters.lengths[index].load(Ordering::Relaxed) as usize;
            frames.push(Frame { at: index * self.area.longest, length });
            self.next = self.next.wrapping_add(1);
        }
        Ok(())
    }

    fn release(&mut self, _: Frame) {
        let tail = self.counters.tail.load(Ordering::Relaxed);
        self.counters.tail.store(tail.wrapping_add(1), Ordering::Release);
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        match self.out.try_send(frame.to_vec()) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TrySendError::Disconnected(_)) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, time: Duration) -> io::Result<bool> {
        let end = Instant::now() + time;
        while self.counters.head.load(Ordering::Acquire) == self.next {
            let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return Ok(false);
            };
            thread::park_timeout(left.min(Duration::from_millis(1)));
        }
        Ok(true)
    }
}
