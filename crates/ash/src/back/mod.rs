//! Back ends: the sources of messages, and the ways out for frames.

pub mod packet;
pub mod ring;
mod slots;
pub mod udp;
pub mod uring;
pub mod xdp;

use crate::head::Frame;
use sfi_loader::{RegionFile, View};
use std::io;
use std::time::Duration;

/// The memory that messages arrive in.
#[derive(Debug)]
pub struct Area {
    /// The memory itself.
    pub memory: RegionFile,
    /// The host's view of it.
    pub view: View,
    /// Bytes of the longest frame, in and out.
    pub longest: usize,
}

impl Area {
    /// Makes memory for frames of at most `longest` bytes.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new(bytes: u64, longest: usize) -> io::Result<Self> {
        let memory = RegionFile::create(bytes)?;
        Ok(Self { view: memory.view()?, memory, longest })
    }
}

/// A source of messages and a way out for frames. Messages are Ethernet frames, in memory that
/// handlers see read-only.
pub trait Backend {
    /// Returns the memory that messages arrive in.
    fn area(&self) -> &Area;

    /// Returns the file of that memory.
    fn memory(&self) -> &RegionFile {
        &self.area().memory
    }

    /// Returns the host's view of that memory.
    fn view(&self) -> &View {
        &self.area().view
    }

    /// Returns the bytes of the longest frame, in and out.
    fn longest(&self) -> usize {
        self.area().longest
    }

    /// Appends messages that arrived, at most `most`. It does not wait.
    ///
    /// # Errors
    /// The operating system's.
    fn receive(&mut self, most: usize, frames: &mut Vec<Frame>) -> io::Result<()>;

    /// Takes a message back. Nobody looks at it any more.
    fn release(&mut self, frame: Frame);

    /// Sends a frame, at the latest with the next [`Backend::flush`].
    ///
    /// # Errors
    /// The operating system's. The frame is lost then.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Sends all frames and gives released memory back.
    ///
    /// # Errors
    /// The operating system's.
    fn flush(&mut self) -> io::Result<()>;

    /// Returns the number of frames that were lost after [`Backend::send`] took them, since the
    /// last call.
    fn lost(&mut self) -> u64 {
        0
    }

    /// Waits for messages. Returns false if none came in time.
    ///
    /// # Errors
    /// The operating system's.
    fn wait(&mut self, time: Duration) -> io::Result<bool>;
}

/// A back end that is chosen at run time.
impl Backend for Box<dyn Backend + '_> {
    fn area(&self) -> &Area {
        (**self).area()
    }
    fn receive(&mut self, most: usize, frames: &mut Vec<Frame>) -> io::Result<()> {
        (**self).receive(most, frames)
    }
    fn release(&mut self, frame: Frame) {
        (**self).release(frame);
    }
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        (**self).send(frame)
    }
    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }
    fn lost(&mut self) -> u64 {
        (**self).lost()
    }
    fn wait(&mut self, time: Duration) -> io::Result<bool> {
        (**self).wait(time)
    }
}
