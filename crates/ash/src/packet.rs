//! Frames that leave. The engine writes every header, so a handler cannot forge a sender.

use crate::head::Head;
use crate::wire::{ETHERNET, IPV4, TCP, UDP};
use std::net::Ipv4Addr;

/// A place that a handler may send to: a UDP port of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its IP address.
    pub ip: Ipv4Addr,
    /// Its UDP port.
    pub port: u16,
    /// The UDP port that the datagram comes from.
    pub from: u16,
}

/// Why no frame can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFrame {
    /// The message went to many. Its receiver's address is no sender's address.
    #[error("the message was not sent to one receiver")]
    NotUnicast,
    /// The message is too short, malformed or a fragment.
    #[error("the message has no sender that can be answered")]
    NoSender,
    /// The transport header leads elsewhere.
    #[error("the reply does not lead from the receiver's port to the sender's")]
    Ports,
    /// The frame would be too long.
    #[error("the frame would be too long")]
    TooLong,
}

/// The addresses of a message.
struct Parties {
    receiver: [u8; 6],
    sender: [u8; 6],
}

fn parties(head: &Head) -> Result<Parties, NoFrame> {
    let mac = |at| head.get(at, 6).map(|bytes| <[u8; 6]>::try_from(bytes).expect("six bytes"));
    let (Some(receiver), Some(sender)) = (mac(0), mac(6)) else { return Err(NoFrame::NoSender) };
    match receiver[0] & 1 == 0 && sender[0] & 1 == 0 {
        true => Ok(Parties { receiver, sender }),
        false => Err(NoFrame::NotUnicast),
    }
}

fn addresses(head: &Head, network: usize) -> Result<[Ipv4Addr; 2], NoFrame> {
    let ip =
        |at| head.get(network + at, 4).map(|bytes| Ipv4Addr::from(<[u8; 4]>::try_from(bytes).expect("four bytes")));
    let (Some(sender), Some(receiver)) = (ip(12), ip(16)) else { return Err(NoFrame::NoSender) };
    let single = |ip: Ipv4Addr| !ip.is_multicast() && !ip.is_broadcast() && !ip.is_unspecified();
    match single(sender) && single(receiver) {
        true => Ok([sender, receiver]),
        false => Err(NoFrame::NotUnicast),
    }
}

/// Returns the sum of big-endian words, for an Internet checksum.
fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let whole: u64 = words.by_ref().map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    whole + words.remainder().first().map_or(0, |last| u64::from(*last) << 8)
}

/// Returns the Internet checksum of a sum.
fn checksum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The headers of a packet that leaves.
struct Route {
    from_mac: [u8; 6],
    to_mac: [u8; 6],
    from: Ipv4Addr,
    to: Ipv4Addr,
}

impl Route {
    /// Writes the Ethernet and IP headers of a packet with `length` bytes after them.
    fn write(&self, protocol: u8, length: usize, out: &mut Vec<u8>) -> Result<(), NoFrame> {
        let total = u16::try_from(20 + length).map_err(|_| NoFrame::TooLong)?;
        out.extend_from_slice(&self.to_mac);
        out.extend_from_slice(&self.from_mac);
        out.extend_from_slice(&IPV4.to_be_bytes());
        let at = out.len();
        out.extend_from_slice(&[0x45, 0]);
        out.extend_from_slice(&total.to_be_bytes());
        out.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
        out.extend_from_slice(&self.from.octets());
        out.extend_from_slice(&self.to.octets());
        let found = checksum(sum(&out[at..]));
        out[at + 10..at + 12].copy_from_slice(&found.to_be_bytes());
        Ok(())
    }

    /// Writes a whole UDP datagram.
    fn datagram(&self, [from, to]: [u16; 2], data: &[u8], out: &mut Vec<u8>) -> Result<(), NoFrame> {
        self.write(UDP, 8 + data.len(), out)?;
        let length = 8 + data.len() as u16;
        let at = out.len();
        [from, to, length, 0].iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        out.extend_from_slice(data);
        let pseudo = sum(&self.from.octets()) + sum(&self.to.octets()) + u64::from(UDP) + u64::from(length);
        // 0 would mean that there is no checksum.
        let found = Some(checksum(pseudo + sum(&out[at..]))).filter(|found| *found != 0).unwrap_or(0xffff);
        out[at + 6..at + 8].copy_from_slice(&found.to_be_bytes());
        Ok(())
    }
}

/// Appends the answer to a message. After UDP, `data` is the datagram's content. After other
/// protocols of IP it is the content of the packet. Otherwise it is the content of the frame, which
/// has the message's type.
///
/// # Errors
/// [`NoFrame`]. Nothing is appended then.
pub fn reply(head: &Head, data: &[u8], out: &mut Vec<u8>) -> Result<(), NoFrame> {
    let Parties { receiver, sender } = parties(head)?;
    let start = out.len();
    let Some(network) = head.network() else {
        let kind = head.get(12, 2).filter(|kind| **kind != IPV4.to_be_bytes()).ok_or(NoFrame::NoSender)?;
        [&sender[..], &receiver, kind, data].iter().for_each(|part| out.extend_from_slice(part));
        return Ok(());
    };
    let [from, to] = addresses(head, network)?;
    let route = Route { from_mac: receiver, to_mac: sender, from: to, to: from };
    let transport = head.transport().ok_or(NoFrame::NoSender)?;
    let ports = || Some([head.u16(transport + 2)?, head.u16(transport)?]);
    let written = match head.u8(network + 9) {
        Some(UDP) => route.datagram(ports().ok_or(NoFrame::NoSender)?, data, out),
        Some(protocol) => {
            let given = data.get(..4).map(|d| [u16::from_be_bytes([d[0], d[1]]), u16::from_be_bytes([d[2], d[3]])]);
            if protocol == TCP && given != ports() {
                return Err(NoFrame::Ports);
            }
            route.write(protocol, data.len(), out).map(|()| out.extend_from_slice(data))
        }
        None => Err(NoFrame::NoSender),
    };
    written.inspect_err(|_| out.truncate(start))
}

/// Appends a datagram for a declared destination, from the address that the message went to.
///
/// # Errors
/// [`NoFrame`]. Nothing is appended then.
pub fn send(head: &Head, to: &Destination, data: &[u8], out: &mut Vec<u8>) -> Result<(), NoFrame> {
    let Parties { receiver, .. } = parties(head)?;
    let [_, own] = addresses(head, head.network().ok_or(NoFrame::NoSender)?)?;
    let start = out.len();
    let route = Route { from_mac: receiver, to_mac: to.mac, from: own, to: to.ip };
    route.datagram([to.from, to.port], data, out).inspect_err(|_| out.truncate(start))
}

/// Addresses of a datagram to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The sender's Ethernet address.
    pub from_mac: [u8; 6],
    /// The receiver's Ethernet address.
    pub to_mac: [u8; 6],
    /// The sender.
    pub from: std::net::SocketAddrV4,
    /// The receiver.
    pub to: std::net::SocketAddrV4,
}

impl Datagram {
    /// Appends the headers of a datagram with `length` bytes, without a checksum of UDP.
    ///
    /// # Errors
    /// [`NoFrame::TooLong`].
    pub fn headers(&self, length: usize, out: &mut Vec<u8>) -> Result<(), NoFrame> {
        let Self { from_mac, to_mac, from, to } = *self;
        let route = Route { from_mac, to_mac, from: *from.ip(), to: *to.ip() };
        route.write(UDP, 8 + length, out)?;
        let words = [from.port(), to.port(), 8 + length as u16, 0];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        Ok(())
    }

    /// Appends the frame of a datagram.
    ///
    /// # Errors
    /// [`NoFrame::TooLong`].
    pub fn write(&self, data: &[u8], out: &mut Vec<u8>) -> Result<(), NoFrame> {
        let Self { from_mac, to_mac, from, to } = *self;
        let route = Route { from_mac, to_mac, from: *from.ip(), to: *to.ip() };
        route.datagram([from.port(), to.port()], data, out)
    }
}

/// Returns the place of the payload in a frame that this module made.
pub const UDP_PAYLOAD: usize = ETHERNET + 20 + 8;
