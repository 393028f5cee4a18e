//! The serialised form of the contract's types in an [image](crate::link::image).

use serde::{Deserialize, Serialize};
use sfi_contract::Anchors;
use sfi_contract::usage::{Usage, Vectors};

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
