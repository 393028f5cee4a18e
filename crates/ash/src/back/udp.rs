//! UDP sockets, waited for with epoll. They need no privilege.
//!
//! Handlers see frames on every back end. Here the kernel keeps the headers to itself, so this back
//! end writes headers of Ethernet, IP and UDP before each datagram, with its addresses. What a
//! handler sends goes through the socket of the port that it comes from.

use crate::back::slots::Slots;
use crate::back::{Area, Backend};
use crate::head::{Frame, Head};
use crate::packet::{Datagram, UDP_PAYLOAD};
use crate::sys::{self, Arrived, Epoll};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Slots of the memory.
const SLOTS: usize = 256;
/// The Ethernet addresses of headers that no wire has seen: of this side and of all others.
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Bound sockets, and the headers of their datagrams.
#[derive(Debug)]
pub(super) struct Sockets {
    all: Vec<(UdpSocket, SocketAddrV4)>,
    header: Vec<u8>,
}

impl Sockets {
    /// Binds sockets. Requests of an io_uring wait on sockets that block only.
    pub(super) fn bind(addresses: &[SocketAddrV4], blocking: bool) -> io::Result<Self> {
        let mut all = Vec::new();
        for address in addresses {
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(!blocking)?;
            let SocketAddr::V4(bound) = socket.local_addr()? else { return Err(io::ErrorKind::Unsupported.into()) };
            all.push((socket, bound));
        }
        Ok(Self { all, header: Vec::new() })
    }

    /// Returns their addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddrV4> {
        self.all.iter().map(|(_, address)| *address)
    }

    /// Returns their number.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns one of them.
    pub(super) fn socket(&self, index: usize) -> BorrowedFd<'_> {
        self.all[index].0.as_fd()
    }

    /// Writes the headers of a datagram that lies in a slot. `None` if it does not fit.
    pub(super) fn complete(&mut self, slots: &mut Slots, at: usize, arrived: Arrived, index: usize) -> Option<Frame> {
        let own = self.all[index].1;
        let length = Some(arrived.length).filter(|length| *length <= slots.area.longest - UDP_PAYLOAD)?;
        let from = arrived.from?;
        // A socket for all addresses does not say which one a datagram was sent to.
        let to = if own.ip().is_unspecified() { SocketAddrV4::new(Ipv4Addr::LOCALHOST, own.port()) } else { own };
        self.header.clear();
        let datagram = Datagram { from_mac: OTHER, to_mac: OWN, from, to };
        datagram.headers(length, &mut self.header).ok()?;
        slots.area.view.write(at, &self.header).ok()?;
        Some(Frame { at, length: UDP_PAYLOAD + length })
    }

    /// Returns the socket of a frame that leaves, its destination, and its data.
    pub(super) fn route<'f>(&self, frame: &'f [u8]) -> io::Result<(&UdpSocket, SocketAddrV4, &'f [u8])> {
        let head = Head::of(frame);
        let (Some(network), Some(transport)) = (head.network(), head.transport()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let ip = head.get(network + 16, 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        let (Some(ip), Some(from), Some(port)) = (ip, head.u16(transport), head.u16(transport + 2)) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let socket = self.all.iter().find(|(_, own)| own.port() == from).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok((&socket.0, SocketAddrV4::new(ip.into(), port), &frame[head.payload()..head.length()]))
    }
}

/// A back end of UDP sockets.
#[derive(Debug)]
pub struct Udp {
    sockets: Sockets,
    slots: Slots,
    epoll: Epoll,
    /// The socket that is asked first.
    turn: usize,
}

impl Udp {
    /// Binds sockets. Port 0 is a port of the kernel's choice, see [`Udp::addresses`].
    ///
    /// # Errors
    /// The operating system's.
    pub fn bind(addresses: &[SocketAddrV4], longest: usize) -> io::Result<Self> {
        let (epoll, sockets) = (Epoll::new()?, Sockets::bind(addresses, false)?);
        (0..sockets.len()).try_for_each(|index| epoll.add(sockets.socket(index)))?;
        let slots = Slots::new(SLOTS, longest + UDP_PAYLOAD)?;
        Ok(Self { sockets, slots, epoll, turn: 0 })
    }

    /// Returns the addresses of the sockets.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddrV4> {
        self.sockets.addresses()
    }
}

impl Backend for Udp {
    fn area(&self) -> &Area {
        &self.slots.area
    }

    fn receive(&mut self, most: usize, frames: &mut Vec<Frame>) -> io::Result<()> {
        self.turn = self.turn.wrapping_add(1);
        for index in 0..self.sockets.len() {
            let index = (index + self.turn) % self.sockets.len();
            let slots = self.slots.take(most.saturating_sub(frames.len()));
            let places: Vec<usize> = slots.iter().map(|slot| slot + UDP_PAYLOAD).collect();
            let room = self.slots.area.longest - UDP_PAYLOAD;
            let arrived = sys::receive(self.sockets.socket(index), &self.slots.area.view, &places, room);
            let arrived = arrived.inspect_err(|_| slots.iter().for_each(|slot| self.slots.give(*slot)))?;
            for (number, slot) in slots.into_iter().enumerate() {
                let arrived = arrived.get(number);
                match arrived.and_then(|arrived| self.sockets.complete(&mut self.slots, slot, *arrived, index)) {
                    Some(frame) => frames.push(frame),
                    None => self.slots.give(slot),
                }
            }
        }
        Ok(())
    }

    fn release(&mut self, frame: Frame) {
        self.slots.release(frame);
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let (socket, to, data) = self.sockets.route(frame)?;
        socket.send_to(data, to).map(drop)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, time: Duration) -> io::Result<bool> {
        self.epoll.wait(time)
    }
}
