//! Declared filters: the messages that a handler wants.

use crate::wire::{HEAD, IPV4, TCP, UDP};
use std::net::Ipv4Addr;

/// Most tests of one filter.
pub const MOST_TESTS: usize = 32;
/// The furthest end of a field after a header.
pub const REACH: usize = 64;

/// The place from which a field's offset counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// The first byte of the frame.
    Frame,
    /// The network header.
    Network,
    /// The transport header. Fragments have none.
    Transport,
    /// The innermost payload.
    Payload,
}

/// A field of a message: up to eight bytes, big-endian, under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field {
    base: Base,
    offset: u16,
    width: u8,
    mask: u64,
}

impl Field {
    /// Describes a field. The width is 1, 2, 4 or 8 bytes.
    ///
    /// # Errors
    /// [`BadFilter`] if the field ends more than [`REACH`] bytes after its header, or [`HEAD`]
    /// bytes after the frame's start, or if the mask is 0 or wider than the field.
    pub fn new(base: Base, offset: usize, width: usize, mask: u64) -> Result<Self, BadFilter> {
        let reach = if base == Base::Frame { HEAD } else { REACH };
        let end = offset.checked_add(width).filter(|end| *end <= reach);
        if !matches!(width, 1 | 2 | 4 | 8) {
            return Err(BadFilter::Width(width));
        }
        if end.is_none() {
            return Err(BadFilter::Reach { offset, width, reach });
        }
        if mask == 0 || mask & !widest(width) != 0 {
            return Err(BadFilter::Mask { mask, width });
        }
        Ok(Self { base, offset: offset as u16, width: width as u8, mask })
    }

    /// Returns the place from which the offset counts.
    pub fn base(&self) -> Base {
        self.base
    }

    /// Returns the offset in bytes.
    pub fn offset(&self) -> usize {
        self.offset.into()
    }

    /// Returns the width in bytes.
    pub fn width(&self) -> usize {
        self.width.into()
    }

    /// Returns the mask.
    pub fn mask(&self) -> u64 {
        self.mask
    }
}

/// Returns the mask of all bits of a field.
pub fn widest(width: usize) -> u64 {
    u64::MAX >> (64 - 8 * width.clamp(1, 8))
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let base = match self.base {
            Base::Frame => "frame",
            Base::Network => "network",
            Base::Transport => "transport",
            Base::Payload => "payload",
        };
        write!(f, "{base}[{}..{}]", self.offset, u32::from(self.offset) + u32::from(self.width))?;
        match self.mask == widest(self.width()) {
            true => Ok(()),
            false => write!(f, " & {:#x}", self.mask),
        }
    }
}

/// A field must have a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Test {
    /// The field.
    pub field: Field,
    /// Its value under the mask.
    pub value: u64,
}

/// The messages for which all tests hold. Without tests: all messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    tests: Vec<Test>,
}

/// A filter that nobody can mean.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFilter {
    /// A word of the text is unknown.
    #[error(
        "`{0}` is no filter; write \"udp 7777\", \"udp 10.0.0.1:7777\", \"tcp 80\", \"ip 17\", \"ethertype 0x88b5\" or \"all\""
    )]
    Text(String),
    /// A width that no field has.
    #[error("a field of {0} bytes: the width is 1, 2, 4 or 8")]
    Width(usize),
    /// A field that lies too far away.
    #[error("a field of {width} bytes at {offset} ends after byte {reach}")]
    Reach {
        /// Its offset.
        offset: usize,
        /// Its width.
        width: usize,
        /// The furthest end.
        reach: usize,
    },
    /// A mask that is 0 or wider than the field.
    #[error("the mask {mask:#x} does not fit a field of {width} bytes")]
    Mask {
        /// The mask.
        mask: u64,
        /// The field's width.
        width: usize,
    },
    /// A value with bits that the mask clears.
    #[error("{field} never has the value {value:#x}")]
    Value {
        /// The field.
        field: String,
        /// The value.
        value: u64,
    },
    /// Two values for one field.
    #[error("{0} has two values")]
    Twice(String),
    /// Too many tests.
    #[error("more than {MOST_TESTS} tests")]
    Tests,
}

impl Filter {
    /// Makes a filter of tests.
    ///
    /// # Errors
    /// [`BadFilter`] if no message can pass them, or if there are more than [`MOST_TESTS`].
    pub fn new(tests: impl IntoIterator<Item = Test>) -> Result<Self, BadFilter> {
        let mut tests: Vec<Test> = tests.into_iter().take(MOST_TESTS + 1).collect();
        tests.sort();
        tests.dedup();
        if tests.len() > MOST_TESTS {
            return Err(BadFilter::Tests);
        }
        if let Some(test) = tests.iter().find(|test| test.value & !test.field.mask != 0) {
            return Err(BadFilter::Value { field: test.field.to_string(), value: test.value });
        }
        if let Some(pair) = tests.windows(2).find(|pair| pair[0].field == pair[1].field) {
            return Err(BadFilter::Twice(pair[0].field.to_string()));
        }
        Ok(Self { tests })
    }

    /// Returns a filter for the messages that pass both.
    ///
    /// # Errors
    /// As [`Filter::new`].
    pub fn and(&self, other: &Filter) -> Result<Self, BadFilter> {
        Self::new(self.tests.iter().chain(&other.tests).copied())
    }

    /// Returns the tests, in order.
    pub fn tests(&self) -> &[Test] {
        &self.tests
    }

    /// Returns the number of bits that the filter looks at.
    pub fn bits(&self) -> u32 {
        self.tests.iter().map(|test| test.field.mask.count_ones()).sum()
    }
}

fn test(base: Base, offset: usize, width: usize, value: u64) -> Test {
    let field = Field { base, offset: offset as u16, width: width as u8, mask: widest(width) };
    Test { field, value }
}

fn number(text: &str, most: u64) -> Option<u64> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.ok().filter(|number| *number <= most)
}

impl std::str::FromStr for Filter {
    type Err = BadFilter;

    /// Reads `udp 7777`, `udp 10.0.0.1:7777`, `tcp 80`, `ip 17`, `ethertype 0x88b5` or `all`.
    fn from_str(text: &str) -> Result<Self, BadFilter> {
        let bad = || BadFilter::Text(text.to_owned());
        let ip = |protocol: u64| [test(Base::Frame, 12, 2, IPV4.into()), test(Base::Network, 9, 1, protocol)];
        let words: Vec<&str> = text.split_whitespace().collect();
        let tests: Vec<Test> = match words[..] {
            ["all"] => Vec::new(),
            ["ethertype", value] => {
                vec![test(Base::Frame, 12, 2, number(value, u16::MAX.into()).ok_or_else(bad)?)]
            }
            ["ip", protocol] => ip(number(protocol, u8::MAX.into()).ok_or_else(bad)?).to_vec(),
            [kind @ ("udp" | "tcp"), place] => {
                let (address, port) = match place.rsplit_once(':') {
                    Some((address, port)) => (Some(address), port),
                    None => (None, place),
                };
                let protocol = if kind == "udp" { UDP } else { TCP };
                let port = number(port, u16::MAX.into()).ok_or_else(bad)?;
                let mut tests = ip(protocol.into()).to_vec();
                tests.push(test(Base::Transport, 2, 2, port));
                if let Some(address) = address {
                    let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
                    tests.push(test(Base::Network, 16, 4, u32::from(address).into()));
                }
                tests
            }
            _ => return Err(bad()),
        };
        Self::new(tests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let count = |text: &str| text.parse::<Filter>().map(|filter| filter.tests().len());
        assert_eq!(count("all"), Ok(0));
        assert_eq!(count("ethertype 0x88b5"), Ok(1));
        assert_eq!(count("ip 17"), Ok(2));
        assert_eq!(count("udp 7777"), Ok(3));
        assert_eq!(count("tcp 10.1.2.3:80"), Ok(4));
        for wrong in ["", "udp", "udp x", "udp 65536", "udp 1.2.3:4", "ip 256", "ethertype 0x10000", "udp 1 2"] {
            assert_eq!(count(wrong), Err(BadFilter::Text(wrong.to_owned())), "{wrong}");
        }
    }

    #[test]
    fn fields_and_filters_that_nobody_can_mean() {
        let field = |offset, width, mask| Field::new(Base::Network, offset, width, mask);
        assert_eq!(field(0, 3, 1), Err(BadFilter::Width(3)));
        assert!(matches!(field(63, 2, 1), Err(BadFilter::Reach { .. })));
        assert!(matches!(field(usize::MAX, 2, 1), Err(BadFilter::Reach { .. })));
        assert!(matches!(field(0, 1, 0x100), Err(BadFilter::Mask { .. })));
        assert!(matches!(field(0, 1, 0), Err(BadFilter::Mask { .. })));
        let field = field(0, 1, 0xf0).unwrap();
        let filter = |values: &[u64]| Filter::new(values.iter().map(|value| Test { field, value: *value }));
        assert!(filter(&[0x40, 0x40]).is_ok());
        assert!(matches!(filter(&[0x41]), Err(BadFilter::Value { .. })));
        assert!(matches!(filter(&[0x40, 0x50]), Err(BadFilter::Twice(_))));
        let many = (0..40).map(|at| test(Base::Frame, at, 1, 0));
        assert_eq!(Filter::new(many), Err(BadFilter::Tests));
    }
}
