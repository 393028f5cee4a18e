//! Values in the form of manifests: times, sizes, and words for choices.

use crate::spec::busy::Busy;
use crate::spec::signature::Signature;
use crate::spec::{Access, DEFAULT_CONTROL_STACK, DEFAULT_MEMORY, DEFAULT_STACK, Restart, Trust};
use crate::vm::space::La57;
use serde::de::{Deserializer, Error as _, Visitor};
use sfi_contract::Mode;
use std::time::Duration;

/// A time: a number of seconds, or text such as `50 ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl<'de> serde::Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Time;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a time: seconds, or text such as \"2 s\"")
            }
            fn visit_i64<E: serde::de::Error>(self, seconds: i64) -> Result<Time, E> {
                self.visit_f64(seconds as f64)
            }
            fn visit_f64<E: serde::de::Error>(self, seconds: f64) -> Result<Time, E> {
                Duration::try_from_secs_f64(seconds).map(Time).map_err(E::custom)
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Time, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl std::str::FromStr for Time {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<Self, NoTime> {
        parse_time(text).map(Time).ok_or_else(|| NoTime(text.to_owned()))
    }
}

/// A text is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time; write \"2 s\"")]
pub struct NoTime(String);

fn parse_time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].trim() {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "min" => 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(digits.parse::<f64>().ok()? * unit).ok()
}

/// The processor's clock: `false`, `true` or `"exposing"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "Word")]
pub enum Clock {
    /// Not granted.
    #[default]
    No,
    /// See [`crate::DomainSpec::clock`].
    Confined,
    /// See [`crate::DomainSpec::clock_exposing`].
    Exposing,
}

/// A yes, a no, or a word.
#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "expected true, false or \"exposing\"")]
enum Word {
    Flag(bool),
    Text(String),
}

impl TryFrom<Word> for Clock {
    type Error = &'static str;

    fn try_from(word: Word) -> Result<Self, Self::Error> {
        match word {
            Word::Flag(false) => Ok(Self::No),
            Word::Flag(true) => Ok(Self::Confined),
            Word::Text(text) if text == "exposing" => Ok(Self::Exposing),
            Word::Text(_) => Err("clock is true, false or \"exposing\""),
        }
    }
}

/// A size in bytes: an integer, or text such as `64 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl<'de> serde::Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Size;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a size: bytes, or text such as \"64 MiB\"")
            }
            fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes).map(Size).map_err(|_| E::custom("a size is not negative"))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl std::str::FromStr for Size {
    type Err = NoSize;

    fn from_str(text: &str) -> Result<Self, NoSize> {
        parse_size(text).map(Size).ok_or_else(|| NoSize(text.to_owned()))
    }
}

/// A text is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size; write \"64 MiB\"")]
pub struct NoSize(String);

fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

pub(super) fn default_memory() -> Size {
    Size(DEFAULT_MEMORY)
}

pub(super) fn default_control_stack() -> Size {
    Size(DEFAULT_CONTROL_STACK)
}

pub(super) fn default_stack() -> Size {
    Size(DEFAULT_STACK)
}

pub(super) fn one_thread() -> usize {
    1
}

pub(super) fn minus_one() -> i64 {
    -1
}

pub(super) fn read_write() -> Access {
    Access::ReadWrite
}

pub(super) fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}

pub(super) fn signature<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Signature>, D::Error> {
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

pub(super) fn restart<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Restart, D::Error> {
    struct Any;
    impl Visitor<'_> for Any {
        type Value = Restart;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("`never`, `always` or a number")
        }
        fn visit_i64<E: serde::de::Error>(self, times: i64) -> Result<Restart, E> {
            u32::try_from(times).map(Restart::Limited).map_err(E::custom)
        }
        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Restart, E> {
            match text {
                "never" => Ok(Restart::Never),
                "always" => Ok(Restart::Always),
                _ => Err(E::custom(format!("unknown restart `{text}`: expected `never`, `always` or a number"))),
            }
        }
    }
    deserializer.deserialize_any(Any)
}

/// Reads `"refuse"` or a time.
pub(super) fn busy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Busy, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "expected \"refuse\" or a time such as \"10 ms\"")]
    enum Either {
        Time(Time),
        Text(String),
    }
    match serde::Deserialize::deserialize(deserializer)? {
        Either::Time(time) => Ok(Busy::Wait(time.0)),
        Either::Text(text) if text == "refuse" => Ok(Busy::Refuse),
        Either::Text(text) => {
            Err(serde::de::Error::custom(format!("unknown `busy` `{text}`: expected \"refuse\" or a time")))
        }
    }
}

/// Reads `true`, `false` or `"if-available"`.
pub(super) fn la57<'de, D: Deserializer<'de>>(deserializer: D) -> Result<La57, D::Error> {
    struct Any;
    impl Visitor<'_> for Any {
        type Value = La57;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("`la57`: true, false or `if-available`")
        }
        fn visit_bool<E: serde::de::Error>(self, on: bool) -> Result<La57, E> {
            Ok(if on { La57::Always } else { La57::Never })
        }
        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<La57, E> {
            let unknown = || E::custom(format!("unknown la57 `{text}`: expected true, false or `if-available`"));
            (text == "if-available").then_some(La57::IfAvailable).ok_or_else(unknown)
        }
    }
    deserializer.deserialize_any(Any)
}

pub(super) fn trust<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Trust>, D::Error> {
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

pub(super) fn access<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Access, D::Error> {
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    match text.as_str() {
        "read" => Ok(Access::Read),
        "read-write" => Ok(Access::ReadWrite),
        _ => Err(D::Error::custom(format!("unknown access `{text}`: expected `read` or `read-write`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Limits;
    use crate::manifest::text::read;

    #[test]
    fn times() {
        assert_eq!(parse_time("50 ms"), Some(Duration::from_millis(50)));
        assert_eq!(parse_time("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_time("2 min"), Some(Duration::from_secs(120)));
        assert_eq!([parse_time("2 h"), parse_time("-1 s"), parse_time("s"), parse_time("1e999 s")], [None; 4]);
        for (text, time) in [("2", 2000), ("0.25", 250), ("\"3 s\"", 3000)] {
            let limits: Limits = read(&format!("call = {text}")).unwrap();
            assert_eq!(limits.call, Some(Time(Duration::from_millis(time))));
        }
        assert!(read::<Limits>("call = -1").is_err());
        assert!(read::<Limits>("call = \"fast\"").is_err());
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("4096"), Some(4096));
        assert_eq!(parse_size("3 KiB"), Some(3072));
        assert_eq!(parse_size("2GiB"), Some(2 << 30));
        assert_eq!(parse_size("x"), None);
        assert_eq!(parse_size("99999999999 GiB"), None);
    }
}
