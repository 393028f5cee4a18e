//! Numbers of protocols.

/// Bytes of a message that are copied: no field of a filter lies further away.
pub const HEAD: usize = 200;
/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;
/// The Ethernet type of IPv4.
pub const IPV4: u16 = 0x0800;
/// The IP protocol of TCP.
pub const TCP: u8 = 6;
/// The IP protocol of UDP.
pub const UDP: u8 = 17;
