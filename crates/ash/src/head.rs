//! The first bytes of a message, copied once. Demultiplexing and replies look only at this copy, so
//! they agree about a message that somebody else still writes to.

use crate::filter::{Base, Field};
use crate::wire::{ETHERNET, HEAD, IPV4, TCP, UDP};
use sfi_loader::View;

/// A frame in the memory of a back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Place of its first byte in the memory.
    pub at: usize,
    /// Length in bytes.
    pub length: usize,
}

/// The first bytes of a frame, and the places of its parts.
#[derive(Clone, Debug)]
pub struct Head {
    bytes: [u8; HEAD],
    kept: usize,
    length: usize,
    network: Option<usize>,
    transport: Option<usize>,
    payload: usize,
}

impl Head {
    /// Copies the head of a frame out of the memory. `None` if the frame does not lie in it.
    pub fn read(view: &View, frame: Frame) -> Option<Self> {
        let mut bytes = [0; HEAD];
        let kept = frame.length.min(HEAD);
        view.read(frame.at, &mut bytes[..kept]).ok()?;
        Some(Self::parse(bytes, kept, frame.length))
    }

    /// Reads the head of a whole frame.
    pub fn of(frame: &[u8]) -> Self {
        let mut bytes = [0; HEAD];
        let kept = frame.len().min(HEAD);
        bytes[..kept].copy_from_slice(&frame[..kept]);
        Self::parse(bytes, kept, frame.len())
    }

    fn parse(bytes: [u8; HEAD], kept: usize, length: usize) -> Self {
        let mut head = Self { bytes, kept, length, network: None, transport: None, payload: ETHERNET.min(length) };
        if head.u16(12) == Some(IPV4) {
            head.parse_ipv4();
        }
        head
    }

    /// Finds the parts of an IPv4 packet. Malformed packets have no network part, and fragments no
    /// transport part. Padding after the packet is cut off.
    fn parse_ipv4(&mut self) {
        let at = ETHERNET;
        let (Some(first), Some(total), Some(fragment)) = (self.u8(at), self.u16(at + 2), self.u16(at + 6)) else {
            return;
        };
        let header = usize::from(first & 15) * 4;
        let end = at + usize::from(total);
        if first >> 4 != 4 || header < 20 || usize::from(total) < header || end > self.length {
            return;
        }
        self.network = Some(at);
        self.length = end;
        self.kept = self.kept.min(end);
        self.payload = at + header;
        if fragment & 0x3fff != 0 {
            return;
        }
        let transport = at + header;
        let taken = match self.u8(at + 9) {
            Some(UDP) => {
                self.u16(transport + 4).map(usize::from).filter(|udp| *udp >= 8 && transport + udp == end).map(|_| 8)
            }
            Some(TCP) => self.u8(transport + 12).map(|word| usize::from(word >> 4) * 4).filter(|tcp| *tcp >= 20),
            _ => Some(0),
        };
        if let Some(taken) = taken.filter(|taken| transport + taken <= end) {
            self.transport = Some(transport);
            self.payload = transport + taken;
        }
    }

    /// Returns the message's length, without padding after an IP packet.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the place of the network header.
    pub fn network(&self) -> Option<usize> {
        self.network
    }

    /// Returns the place of the transport header. Fragments have none.
    pub fn transport(&self) -> Option<usize> {
        self.transport
    }

    /// Returns the place of the innermost payload that is known.
    pub fn payload(&self) -> usize {
        self.payload
    }

    /// Returns bytes of the head.
    pub fn get(&self, at: usize, length: usize) -> Option<&[u8]> {
        self.bytes[..self.kept].get(at..at.checked_add(length)?)
    }

    /// Returns a byte.
    pub fn u8(&self, at: usize) -> Option<u8> {
        self.get(at, 1).map(|bytes| bytes[0])
    }

    /// Returns two bytes as a big-endian number.
    pub fn u16(&self, at: usize) -> Option<u16> {
        self.get(at, 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Returns the value of a field under its mask. `None` if the message has no such field.
    #[inline]
    pub fn field(&self, field: &Field) -> Option<u64> {
        let base = match field.base() {
            Base::Frame => 0,
            Base::Network => self.network?,
            Base::Transport => self.transport?,
            Base::Payload => self.payload,
        };
        let bytes = self.get(base + field.offset(), field.width())?;
        let value = match *bytes {
            [a] => u64::from(a),
            [a, b] => u64::from(u16::from_be_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
            _ => bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)),
        };
        Some(value & field.mask())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a UDP packet with `options` bytes of IP options, and `extra` bytes after it.
    fn udp(options: usize, data: usize, extra: usize) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET + 20 + options + 8 + data + extra];
        frame[12..14].copy_from_slice(&IPV4.to_be_bytes());
        frame[14] = 0x40 | (5 + options / 4) as u8;
        frame[16..18].copy_from_slice(&((20 + options + 8 + data) as u16).to_be_bytes());
        frame[23] = UDP;
        let at = 34 + options;
        frame[at + 2..at + 4].copy_from_slice(&7777_u16.to_be_bytes());
        frame[at + 4..at + 6].copy_from_slice(&((8 + data) as u16).to_be_bytes());
        frame
    }

    #[test]
    fn the_parts_of_a_packet() {
        for (options, data, extra) in [(0, 0, 0), (0, 5, 13), (40, 100, 1)] {
            let head = Head::of(&udp(options, data, extra));
            assert_eq!((head.network(), head.transport()), (Some(14), Some(34 + options)));
            assert_eq!((head.payload(), head.length()), (42 + options, 42 + options + data));
        }
    }

    #[test]
    fn malformed_packets_have_no_parts() {
        let whole = udp(0, 8, 0);
        for cut in 0..whole.len() {
            let head = Head::of(&whole[..cut]);
            assert_eq!((head.network(), head.transport()), (None, None), "{cut} bytes");
            assert!(head.payload() <= cut);
        }
        let damaged = |at: usize, value: u8| {
            let mut frame = whole.clone();
            frame[at] = value;
            Head::of(&frame)
        };
        assert_eq!(damaged(14, 0x55).network(), None, "another version");
        assert_eq!(damaged(14, 0x44).network(), None, "a header of 16 bytes");
        assert_eq!(damaged(14, 0x4f).network(), None, "a header that is longer than the packet");
        assert_eq!(damaged(16, 0xff).network(), None, "a packet that is longer than the frame");
        assert_eq!(damaged(39, 7).transport(), None, "a datagram shorter than its header");
        assert_eq!(damaged(39, 200).transport(), None, "a datagram longer than the packet");
        for (at, value) in [(20, 0x20), (20, 1), (21, 1)] {
            assert_eq!(damaged(at, value).transport(), None, "a fragment");
        }
    }
}
