//! Records of calls, their counts and their answers.

use crate::calls::{is_known, name};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// One answered call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of the call.
    pub number: i64,
    /// Arguments. Addresses in the domain appear as offsets in its window, because the window's
    /// place is a secret.
    pub args: [u64; 6],
    /// The answer, or a positive error number. Addresses appear as offsets, too.
    pub answer: Result<u64, i32>,
    /// Says whether the policy grants the call. A granted call may fail, too.
    pub granted: bool,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", name(self.number))?;
        for (i, arg) in self.args.iter().enumerate() {
            write!(f, "{}{arg:#x}", if i == 0 { "" } else { ", " })?;
        }
        match self.answer {
            Ok(value) => write!(f, ") = {value:#x}")?,
            Err(code) => write!(f, ") = -1 {}", std::io::Error::from_raw_os_error(code))?,
        }
        f.write_str(if self.granted { "" } else { " [refused]" })
    }
}

/// Receives [`Record`]s.
pub type Logger = Box<dyn FnMut(&Record) + Send>;

/// Counts of each call, in a handle that stays valid after the arbiter is gone. Numbers that the
/// kernel does not know are counted together as [`Counts::UNKNOWN`], because a domain may invent
/// any number of them.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<BTreeMap<(i64, bool), u64>>>);

impl Counts {
    /// Key of all calls without a name.
    pub const UNKNOWN: i64 = -1;

    pub(crate) fn add(&self, number: i64, granted: bool) {
        let number = if is_known(number) { number } else { Self::UNKNOWN };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry((number, granted)).or_default() += 1;
    }

    fn select(&self, granted: bool) -> BTreeMap<i64, u64> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().filter(|((_, g), _)| *g == granted).map(|((n, _), count)| (*n, *count)).collect()
    }

    /// Returns the number of refusals of each call, by the call's number.
    pub fn refused(&self) -> BTreeMap<i64, u64> {
        self.select(false)
    }

    /// Returns the number of answers to each granted call, by the call's number.
    pub fn granted(&self) -> BTreeMap<i64, u64> {
        self.select(true)
    }
}

impl fmt::Display for Counts {
    /// Writes a line for each call: count, name, and `refused` if the policy refused it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, count) in self.granted() {
            writeln!(f, "{count:>8} {}", name(number))?;
        }
        for (number, count) in self.refused() {
            let name = if number == Self::UNKNOWN { "unknown numbers".into() } else { name(number) };
            writeln!(f, "{count:>8} {name} refused")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_numbers_are_counted_together() {
        let counts = Counts::default();
        for number in (-50_000..0).chain(1_000_000..1_050_000).chain([i64::MIN, i64::MAX]) {
            counts.add(number, false);
        }
        counts.add(libc::SYS_read, true);
        assert_eq!(counts.refused(), [(Counts::UNKNOWN, 100_002)].into());
        assert_eq!(counts.to_string(), "       1 read\n  100002 unknown numbers refused\n");
    }
}
