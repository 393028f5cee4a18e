//! Handlers in a TOML file.
//!
//! ```toml
//! [engine]
//! tick = "10 ms"          # quotas are for one tick
//!
//! [owners.alice]
//! quota = 1000            # messages per tick; further ones go the normal way
//!
//! [handlers.counter]
//! objects = ["counter.sfi.o"]
//! on = "udp 7777"         # or "udp 10.0.0.1:7777", "tcp 80", "ip 17", "ethertype 0x88b5", "all"
//! fields = [{ base = "payload", offset = 0, width = 4, mask = 0xff000000, value = 0x01000000 }]
//! owner = "alice"
//! state = "4 KiB"         # ash_state: undone when the handler does not end well
//! segment = "1 MiB"       # ash_segment: written by trusted calls only, and undone
//! buffer = "64 KiB"       # ash_buffer: written by handler and application, never undone
//! time = "5 ms"           # wall clock for one message
//! budget = 2000           # instead: instructions, for objects of `sfi rewrite --budget`
//! pipes = ["copy | checksum"] # loops for ash_ilp, by their numbers from 0 on
//! faults = 100            # involuntary aborts after which it gets no more messages
//! send = [{ mac = "02:00:00:00:00:01", ip = "10.77.0.1", port = 9000, from = 7777 }]
//! ```

use crate::filter::{BadFilter, Base, Field, Filter, Test, widest};
use crate::handler::HandlerSpec;
use crate::packet::Destination;
use serde::Deserialize;
use sfi_dilp::{Pipe, PipeError, builtin};
use sfi_loader::Mode;
use sfi_loader::manifest::{Size, Time, file};
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// A manifest of handlers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The engine.
    #[serde(default)]
    pub engine: EngineTable,
    /// The owners.
    #[serde(default)]
    pub owners: BTreeMap<String, OwnerTable>,
    /// Further pipes, in their text.
    #[serde(default)]
    pub pipes: String,
    /// The handlers.
    pub handlers: BTreeMap<String, HandlerTable>,
}

/// The engine of a manifest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineTable {
    /// The length of a tick.
    #[serde(default)]
    pub tick: Option<Time>,
    /// Handlers of different owners may see each other's messages.
    #[serde(default)]
    pub common: bool,
}

/// An owner of a manifest.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnerTable {
    /// Messages per tick.
    pub quota: u32,
}

/// A handler of a manifest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerTable {
    /// Its objects, rewritten.
    #[serde(default)]
    pub objects: Vec<PathBuf>,
    /// Archives of which the needed members are linked.
    #[serde(default)]
    pub archives: Vec<PathBuf>,
    /// The filter in words.
    pub on: String,
    /// Further tests.
    #[serde(default)]
    pub fields: Vec<FieldTable>,
    /// See [`HandlerSpec::priority`].
    #[serde(default)]
    pub priority: i32,
    /// The owner.
    pub owner: String,
    /// The mode of its objects.
    #[serde(default, deserialize_with = "mode")]
    pub mode: Mode,
    /// See [`HandlerSpec::memory`].
    pub memory: Option<Size>,
    /// See [`HandlerSpec::stack`].
    pub stack: Option<Size>,
    /// See [`HandlerSpec::state`].
    pub state: Option<Size>,
    /// See [`HandlerSpec::segment`].
    pub segment: Option<Size>,
    /// See [`HandlerSpec::buffer`].
    pub buffer: Option<Size>,
    /// See [`HandlerSpec::time`].
    pub time: Option<Time>,
    /// See [`HandlerSpec::budget`].
    pub budget: Option<u64>,
    /// See [`HandlerSpec::pipes`]. The names are those of the manifest's pipes and the ready ones.
    #[serde(default)]
    pub pipes: Vec<String>,
    /// See [`HandlerSpec::faults`].
    pub faults: Option<u64>,
    /// See [`HandlerSpec::private`]. Default: true if there are several owners.
    pub private: Option<bool>,
    /// See [`HandlerSpec::destinations`].
    #[serde(default)]
    pub send: Vec<DestinationTable>,
}

/// A test of a manifest.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldTable {
    base: Base,
    offset: usize,
    width: usize,
    mask: Option<u64>,
    value: u64,
}

/// A destination of a manifest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestinationTable {
    mac: String,
    ip: Ipv4Addr,
    port: u16,
    from: u16,
}

/// A manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The text is no manifest.
    #[error("`{path}` is no manifest of handlers")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        error: Box<toml::de::Error>,
    },
    /// A file cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        error: io::Error,
    },
    /// A filter is wrong.
    #[error("handler `{handler}`: its filter is wrong")]
    Filter {
        /// The handler.
        handler: String,
        /// The reason.
        #[source]
        error: BadFilter,
    },
    /// The text of pipes is wrong.
    #[error("the pipes of the manifest are wrong")]
    Pipes(#[source] PipeError),
    /// A chain of pipes is wrong.
    #[error("handler `{handler}`: its pipes are wrong")]
    Chain {
        /// The handler.
        handler: String,
        /// The reason.
        #[source]
        error: PipeError,
    },
    /// An owner has no table.
    #[error("handler `{handler}`: there is no [owners.{owner}]")]
    Owner {
        /// The handler.
        handler: String,
        /// The owner.
        owner: String,
    },
    /// An Ethernet address cannot be read.
    #[error("handler `{handler}`: `{mac}` is no Ethernet address of one receiver; write \"02:00:00:00:00:01\"")]
    Mac {
        /// The handler.
        handler: String,
        /// The text.
        mac: String,
    },
}

impl Manifest {
    /// Reads a manifest. `path` is for messages.
    ///
    /// # Errors
    /// [`ManifestError::Syntax`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ManifestError> {
        toml::from_str(text).map_err(|error| ManifestError::Syntax { path: path.to_owned(), error: Box::new(error) })
    }

    /// Returns the quotas of all owners.
    pub fn quotas(&self) -> BTreeMap<String, u32> {
        self.owners.iter().map(|(name, owner)| (name.clone(), owner.quota)).collect()
    }

    /// Describes the handlers. Their files lie relative to `directory`.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn handlers(&self, directory: &Path) -> Result<Vec<HandlerSpec>, ManifestError> {
        let private = self.owners.len() > 1 && !self.engine.common;
        let read = |path: &PathBuf| {
            let whole = directory.join(path);
            let bytes = file::read(&whole).map_err(|error| ManifestError::Read { path: whole, error })?;
            Ok((path.display().to_string(), bytes))
        };
        let own = Pipe::parse_all(&self.pipes).map_err(ManifestError::Pipes)?;
        let mut all = Vec::new();
        for (name, table) in &self.handlers {
            let chain = |line: &String| {
                builtin::chain_with(line, &own).map_err(|error| ManifestError::Chain { handler: name.clone(), error })
            };
            let default = HandlerSpec::new(name);
            let filter = table.filter().map_err(|error| ManifestError::Filter { handler: name.clone(), error })?;
            if !self.owners.contains_key(&table.owner) {
                return Err(ManifestError::Owner { handler: name.clone(), owner: table.owner.clone() });
            }
            let destination = |to: &DestinationTable| to.read(name);
            let size = |size: Option<Size>, default: u64| size.map_or(default, |size| size.0);
            all.push(HandlerSpec {
                filter,
                priority: table.priority,
                owner: table.owner.clone(),
                mode: table.mode,
                objects: table.objects.iter().map(read).collect::<Result<_, _>>()?,
                archives: table.archives.iter().map(read).collect::<Result<_, _>>()?,
                memory: size(table.memory, default.memory),
                stack: size(table.stack, default.stack),
                state: size(table.state, default.state),
                segment: size(table.segment, default.segment),
                buffer: size(table.buffer, default.buffer),
                time: table.time.map_or(default.time, |time| time.0),
                budget: table.budget,
                pipes: table.pipes.iter().map(chain).collect::<Result<_, _>>()?,
                destinations: table.send.iter().map(destination).collect::<Result<_, _>>()?,
                private: table.private.unwrap_or(private),
                faults: table.faults,
                ..default
            });
        }
        Ok(all)
    }
}

fn mode<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
    let text: String = Deserialize::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

impl HandlerTable {
    fn filter(&self) -> Result<Filter, BadFilter> {
        let test = |table: &FieldTable| {
            let mask = table.mask.unwrap_or(widest(table.width));
            let field = Field::new(table.base, table.offset, table.width, mask)?;
            Ok(Test { field, value: table.value })
        };
        let fields = self.fields.iter().map(test).collect::<Result<Vec<Test>, BadFilter>>()?;
        self.on.parse::<Filter>()?.and(&Filter::new(fields)?)
    }
}

impl DestinationTable {
    fn read(&self, handler: &str) -> Result<Destination, ManifestError> {
        let wrong = || ManifestError::Mac { handler: handler.to_owned(), mac: self.mac.clone() };
        let bytes: Option<Vec<u8>> = self.mac.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        let mac = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok()).filter(|mac| mac[0] & 1 == 0);
        Ok(Destination { mac: mac.ok_or_else(wrong)?, ip: self.ip, port: self.port, from: self.from })
    }
}
