//! The serialised form of the contract's types in an [image](crate::link::image).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sfi_contract::Anchors;
use sfi_contract::saves::{Deep, Saves};
use sfi_contract::usage::{Usage, Vectors};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
#[serde(remote = "Anchors")]
pub(crate) struct AnchorsForm {
    header: u64,
    dispatch: u64,
    tcb: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Usage")]
pub(crate) struct UsageForm {
    gprs_written: u16,
    preserved_named: u16,
    #[serde(with = "VectorsForm")]
    vectors: Vectors,
    x87: bool,
    x87_places: bool,
    mxcsr: bool,
    clock: bool,
    identity: bool,
    gs: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Vectors")]
enum VectorsForm {
    None,
    Xmm,
    Ymm,
    Zmm,
}

/// The form of [`Saves`]: start, end and depth of each range.
pub(crate) struct SavesForm;

impl SavesForm {
    pub(crate) fn serialize<S: Serializer>(saves: &Arc<Saves>, to: S) -> Result<S::Ok, S::Error> {
        let ranges: Vec<(u32, u32, u8)> = saves.0.iter().map(|deep| (deep.start, deep.end, deep.depth)).collect();
        ranges.serialize(to)
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Arc<Saves>, D::Error> {
        let ranges = Vec::<(u32, u32, u8)>::deserialize(from)?;
        Ok(Arc::new(Saves(ranges.into_iter().map(|(start, end, depth)| Deep { start, end, depth }).collect())))
    }
}
