//! Segments of TCP in frames of Ethernet and IPv4.

use std::net::SocketAddrV4;

/// Flags of a segment.
pub const FIN: u8 = 1;
/// The sequence numbers begin.
pub const SYN: u8 = 2;
/// The connection is broken.
pub const RST: u8 = 4;
/// The sender waits for no more data.
pub const PUSH: u8 = 8;
/// The segment acknowledges.
pub const ACK: u8 = 16;

/// Bytes before TCP's header.
const BEFORE: usize = 34;

/// One side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its IP address and port.
    pub socket: SocketAddrV4,
}

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The sender.
    pub from: Address,
    /// The receiver.
    pub to: Address,
    /// The number of the first byte.
    pub sequence: u32,
    /// The byte that the sender expects next.
    pub acknowledged: u32,
    /// Its flags.
    pub flags: u8,
    /// The bytes that the sender has room for.
    pub window: u16,
    /// Most bytes of a segment that the sender takes, with [`SYN`].
    pub most: Option<u16>,
    /// Its bytes.
    pub data: &'a [u8],
}

/// Returns the Internet checksum of bytes without the complement, and of an earlier sum.
pub fn sum(bytes: &[u8], before: u64) -> u16 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = before + words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum::<u64>();
    sum += match *rest {
        [] => 0,
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, ..] => u64::from(u32::from_le_bytes([a, b, c, 0])),
    };
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the sum of a segment's addresses, protocol and length.
fn pseudo(ip: &[u8], length: usize) -> u64 {
    u64::from(sum(&ip[12..20], 0x0600 + u64::from((length as u16).swap_bytes())))
}

impl<'a> Segment<'a> {
    /// Reads a frame. `None` if it is damaged, a fragment, or not TCP over IPv4.
    pub fn parse(frame: &'a [u8]) -> Option<Self> {
        let ip = frame.get(14..).filter(|_| frame[12..14] == [8, 0])?;
        let header = usize::from(ip.first()? & 15) * 4;
        let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
        let ip = ip.get(..total).filter(|_| header >= 20 && header + 20 <= total)?;
        let is_whole = ip[0] >> 4 == 4 && ip[9] == 6 && (ip[6] & 0x3f, ip[7]) == (0, 0);
        if !is_whole || sum(&ip[..header], 0) != 0xffff {
            return None;
        }
        let tcp = &ip[header..];
        if sum(tcp, pseudo(ip, tcp.len())) != 0xffff {
            return None;
        }
        let offset = usize::from(tcp[12] >> 4) * 4;
        let options = tcp.get(20..offset)?;
        let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().expect("four bytes"));
        let half = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let address = |mac: usize, at: usize, port| Address {
            mac: frame[mac..mac + 6].try_into().expect("six bytes"),
            socket: SocketAddrV4::new([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]].into(), half(port)),
        };
        Some(Self {
            from: address(6, 12, 0),
            to: address(0, 16, 2),
            sequence: word(4),
            acknowledged: word(8),
            flags: tcp[13],
            window: half(14),
            most: most(options),
            data: &tcp[offset..],
        })
    }

    /// Returns the frame.
    pub fn frame(&self) -> Vec<u8> {
        let options: &[u8] = &self.most.map_or([0; 4], |most| [2, 4, (most >> 8) as u8, most as u8]);
        let options = &options[..if self.most.is_some() { 4 } else { 0 }];
        let length = 20 + options.len() + self.data.len();
        let mut out = Vec::with_capacity(BEFORE + length);
        out.extend_from_slice(&self.to.mac);
        out.extend_from_slice(&self.from.mac);
        out.extend_from_slice(&[8, 0, 0x45, 0]);
        out.extend_from_slice(&((20 + length) as u16).to_be_bytes());
        out.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
        out.extend_from_slice(&self.from.socket.ip().octets());
        out.extend_from_slice(&self.to.socket.ip().octets());
        let found = !sum(&out[14..], 0);
        out[24..26].copy_from_slice(&found.to_le_bytes());
        out.extend_from_slice(&self.from.socket.port().to_be_bytes());
        out.extend_from_slice(&self.to.socket.port().to_be_bytes());
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&self.acknowledged.to_be_bytes());
        out.extend_from_slice(&[(5 + options.len() as u8 / 4) << 4, self.flags]);
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(options);
        out.extend_from_slice(self.data);
        let found = !sum(&out[BEFORE..], pseudo(&out[14..34], length));
        out[50..52].copy_from_slice(&found.to_le_bytes());
        out
    }
}

/// Finds the size of segments among a header's options.
fn most(mut options: &[u8]) -> Option<u16> {
    loop {
        match *options {
            [] | [0, ..] => return None,
            [1, ref rest @ ..] => options = rest,
            [2, 4, high, low, ..] => return Some(u16::from_be_bytes([high, low])),
            [_, length, ..] => options = options.get(usize::from(length.max(2))..)?,
            [_] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(data: &[u8], most: Option<u16>) -> Segment<'_> {
        let address = |number: u8| Address {
            mac: [2, 0, 0, 0, 0, number],
            socket: SocketAddrV4::new([10, 77, 0, number].into(), 4000 + u16::from(number)),
        };
        let (from, to) = (address(1), address(2));
        Segment { from, to, sequence: 0xffff_fff0, acknowledged: 7, flags: ACK | PUSH, window: 900, most, data }
    }

    #[test]
    fn a_segment_goes_there_and_back() {
        for length in 0..70 {
            let data: Vec<u8> = (0..length).map(|byte| byte * 3 + 1).collect();
            for most in [None, Some(536)] {
                let segment = segment(&data, most);
                assert_eq!(Segment::parse(&segment.frame()), Some(segment));
                let padded = [segment.frame(), vec![9; 3]].concat();
                assert_eq!(Segment::parse(&padded), Some(segment), "padding is no data");
            }
        }
    }

    #[test]
    fn every_damaged_bit_after_ethernet_is_noticed() {
        let frame = segment(b"some data", Some(1448)).frame();
        for bit in 12 * 8..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Segment::parse(&damaged), None, "bit {bit}");
        }
        for cut in 0..frame.len() {
            assert_eq!(Segment::parse(&frame[..cut]), None, "{cut} bytes");
        }
    }

    #[test]
    fn options_are_read_with_care() {
        assert_eq!(most(&[1, 1, 3, 3, 7, 2, 4, 5, 180]), Some(1460));
        for none in [&[][..], &[0, 2, 4, 5, 180], &[2], &[2, 4, 5], &[3, 200, 2, 4, 5, 180], &[8, 0], &[2, 3, 1]] {
            assert_eq!(most(none), None, "{none:?}");
        }
    }
}
