//! UDP sockets, read and written through an io_uring. They need no privilege, but a kernel that
//! allows io_uring, of version 6.0 or later.
//!
//! Each slot belongs to a socket and waits for a datagram there. One system call for each turn asks
//! for all datagrams and sends all answers, and a turn without any needs none.

use crate::back::slots::Slots;
use crate::back::udp::Sockets;
use crate::back::{Area, Backend};
use crate::head::Frame;
use crate::packet::UDP_PAYLOAD;
use crate::uring::Requests;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::AsFd;
use std::time::Duration;

/// Slots of the memory.
const SLOTS: usize = 256;

/// A back end of UDP sockets on an io_uring.
#[derive(Debug)]
pub struct UringUdp {
    // Dropped first: no request names a socket any more.
    requests: Requests,
    sockets: Sockets,
    slots: Slots,
    /// Slots that wait for no datagram and hold none.
    idle: Vec<usize>,
}

impl UringUdp {
    /// Binds sockets, as [`crate::back::udp::Udp::bind`] does. At most 64.
    ///
    /// # Errors
    /// The operating system's. Where io_uring is forbidden: permission denied.
    pub fn bind(addresses: &[SocketAddrV4], longest: usize) -> io::Result<Self> {
        if addresses.is_empty() || addresses.len() > SLOTS / 4 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let sockets = Sockets::bind(addresses, true)?;
        let mut slots = Slots::new(SLOTS, longest + UDP_PAYLOAD)?;
        // All places are asked for by number from here on.
        let idle = slots.take(SLOTS).len();
        let requests = Requests::new(slots.area.memory.view()?, SLOTS)?;
        Ok(Self { requests, sockets, slots, idle: (0..idle).collect() })
    }

    /// Returns the addresses of the sockets.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddrV4> {
        self.sockets.addresses()
    }

    /// Lets all idle slots wait for datagrams. The thread that does so must live as long as they
    /// wait, or the kernel takes the requests back.
    fn ask(&mut self) -> io::Result<()> {
        while let Some(slot) = self.idle.pop() {
            let (at, room) = (slot * self.slots.area.longest + UDP_PAYLOAD, self.slots.area.longest - UDP_PAYLOAD);
            let socket = self.sockets.socket(slot % self.sockets.len());
            if let Err(error) = self.requests.receive(socket, slot, at, room) {
                self.idle.push(slot);
                return Err(error);
            }
        }
        self.requests.submit()
    }
}

impl Backend for UringUdp {
    fn area(&self) -> &Area {
        &self.slots.area
    }

    fn receive(&mut self, most: usize, frames: &mut Vec<Frame>) -> io::Result<()> {
        self.ask()?;
        for _ in 0..most {
            let Some((slot, arrived)) = self.requests.next() else { break };
            let (at, own) = (slot * self.slots.area.longest, slot % self.sockets.len());
            match arrived.map(|arrived| self.sockets.complete(&mut self.slots, at, arrived, own)) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => self.idle.push(slot),
                Err(error) => {
                    self.idle.push(slot);
                    // A thread that asked and ended took its requests with it.
                    if error.raw_os_error() != Some(libc::ECANCELED) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    fn release(&mut self, frame: Frame) {
        self.idle.push(frame.at / self.slots.area.longest);
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let (socket, to, data) = self.sockets.route(frame)?;
        self.requests.send(socket.as_fd(), to, data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.ask()
    }

    fn lost(&mut self) -> u64 {
        self.requests.lost()
    }

    fn wait(&mut self, time: Duration) -> io::Result<bool> {
        self.ask()?;
        self.requests.wait(time)
    }
}
