//! The choices of a composition.

use sfi_contract::Mode;

/// The instructions that a composition may use beyond those of every x86-64 processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// AVX2: words of 256 bits, if all pipes allow it.
    pub avx2: bool,
    /// PCLMULQDQ: products without carries, for CRCs.
    pub pclmul: bool,
    /// SSE4.2: the instruction for CRC-32C.
    pub sse42: bool,
}

impl Features {
    /// No extensions.
    pub const NONE: Features = Features { avx2: false, pclmul: false, sse42: false };
    /// All extensions that this crate has a use for.
    pub const ALL: Features = Features { avx2: true, pclmul: true, sse42: true };

    /// Returns the extensions of this processor.
    pub fn detect() -> Features {
        Features {
            avx2: std::is_x86_feature_detected!("avx2"),
            pclmul: std::is_x86_feature_detected!("pclmulqdq"),
            sse42: std::is_x86_feature_detected!("sse4.2"),
        }
    }
}

/// The use of the words that leave the last pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sink {
    /// They are stored at the destination.
    #[default]
    Store,
    /// They are dropped. The registers alone are of interest.
    Drop,
}

/// The choices of a composition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The mode of the domain: in mode full loads are confined, too.
    pub mode: Mode,
    /// The instructions that may be used.
    pub features: Features,
    /// The use of the words.
    pub sink: Sink,
    /// The domain has a budget of instructions: r14 holds what is left, and each part of the loop
    /// is charged.
    pub budget: bool,
}

impl Options {
    /// Returns the options for this processor: the words are stored.
    pub fn new(mode: Mode) -> Options {
        Options { mode, features: Features::detect(), sink: Sink::Store, budget: false }
    }
}
