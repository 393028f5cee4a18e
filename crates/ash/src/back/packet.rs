//! Whole frames by the kernel: a packet socket on an interface, or a tap device. Both need
//! CAP_NET_RAW or CAP_NET_ADMIN. The kernel copies each frame into the memory once.

use crate::back::slots::Slots;
use crate::back::{Area, Backend};
use crate::head::Frame;
use crate::sys::{self, Epoll};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Slots of the memory.
const SLOTS: usize = 256;

#[derive(Debug)]
enum Source {
    Packet(OwnedFd),
    Tap(File),
}

/// A back end of a packet socket or a tap device.
#[derive(Debug)]
pub struct Packets {
    source: Source,
    slots: Slots,
    epoll: Epoll,
}

impl Packets {
    /// Listens at an interface. The kernel's own protocols see its frames, too.
    ///
    /// # Errors
    /// The operating system's. Without CAP_NET_RAW: permission denied.
    pub fn listen(interface: &str, longest: usize) -> io::Result<Self> {
        let fd = sys::packet_socket(sys::interface(interface)?)?;
        Self::new(Source::Packet(fd), longest)
    }

    /// Makes a tap device. Its other side is an interface of the kernel.
    ///
    /// # Errors
    /// The operating system's. Without CAP_NET_ADMIN: permission denied.
    pub fn tap(name: &str, longest: usize) -> io::Result<Self> {
        Self::new(Source::Tap(File::from(sys::tap(name)?)), longest)
    }

    fn new(source: Source, longest: usize) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(match &source {
            Source::Packet(fd) => fd.as_fd(),
            Source::Tap(file) => file.as_fd(),
        })?;
        Ok(Self { source, slots: Slots::new(SLOTS, longest)?, epoll })
    }

    /// Fills slots with frames. Returns the length of each.
    fn fill(&self, slots: &[usize]) -> io::Result<Vec<usize>> {
        let (view, size) = (&self.slots.area.view, self.slots.area.longest);
        match &self.source {
            Source::Packet(fd) => {
                Ok(sys::receive(fd.as_fd(), view, slots, size)?.into_iter().map(|arrived| arrived.length).collect())
            }
            Source::Tap(file) => {
                let mut lengths = Vec::new();
                for slot in slots {
                    let Some(length) = sys::read(file.as_fd(), view, *slot, size)? else { break };
                    lengths.push(length);
                }
                Ok(lengths)
            }
        }
    }
}

impl Backend for Packets {
    fn area(&self) -> &Area {
        &self.slots.area
    }

    fn receive(&mut self, most: usize, frames: &mut Vec<Frame>) -> io::Result<()> {
        let slots = self.slots.take(most);
        let lengths = self.fill(&slots).inspect_err(|_| slots.iter().for_each(|slot| self.slots.give(*slot)))?;
        for (number, slot) in slots.into_iter().enumerate() {
            // A frame that was cut is dropped.
            match lengths.get(number).filter(|length| **length <= self.slots.area.longest) {
                Some(length) => frames.push(Frame { at: slot, length: *length }),
                None => self.slots.give(slot),
            }
        }
        Ok(())
    }

    fn release(&mut self, frame: Frame) {
        self.slots.release(frame);
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        match &mut self.source {
            Source::Packet(fd) => sys::send(fd.as_fd(), frame),
            Source::Tap(file) => file.write_all(frame),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, time: Duration) -> io::Result<bool> {
        self.epoll.wait(time)
    }
}
