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

/// A source of messages and a way out for frames. Messages are Ethernet frames, in memory that
/// handlers see read-only.
pub trait Backend {
    /// Returns the memory that messages arrive in.
    fn memory(&self) -> &RegionFile;

    /// Returns the host's view of that memory.
    fn view(&self) -> &View;

    /// Returns the bytes of the longest frame, in and out.
    fn longest(&self) -> usize;

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

    /// Waits for messages. Returns false if none came in time.
    ///
    /// # Errors
    /// The operating system's.
    fn wait(&mut self, time: Duration) -> io::Result<bool>;
}

/// A back end that is chosen at run time.
impl Backend for Box<dyn Backend + '_> {
    fn memory(&self) -> &RegionFile {
        (**self).memory()
    }
    fn view(&self) -> &View {
        (**self).view()
    }
    fn longest(&self) -> usize {
        (**self).longest()
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
    fn wait(&mut self, time: Duration) -> io::Result<bool> {
        (**self).wait(time)
    }
}
