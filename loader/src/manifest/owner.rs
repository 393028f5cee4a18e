//! Owners of domains.

use crate::manifest::values::Time;

/// An owner of domains.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// See [`crate::Owner::most_faults`].
    pub faults: Option<u64>,
    /// See [`crate::Owner::penalty`].
    #[serde(default)]
    pub penalty: Penalty,
}

/// The price of a fault, see [`crate::Penalty`].
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(untagged)]
pub enum Penalty {
    /// No delay.
    #[default]
    None,
    /// An equal delay for every fault.
    Constant(Time),
    /// A delay that doubles for every earlier fault.
    Adaptive(Adaptive),
}

/// See [`crate::Penalty::Adaptive`].
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adaptive {
    /// The delay for the first fault.
    pub first: Time,
    /// The longest delay.
    pub most: Time,
    /// The time for which faults count.
    pub window: Time,
}

impl Owner {
    /// Makes the owner.
    pub(super) fn owner(&self, name: &str) -> crate::Owner {
        let owner = crate::Owner::new(name).penalty(match self.penalty {
            Penalty::None => crate::Penalty::None,
            Penalty::Constant(time) => crate::Penalty::Constant(time.0),
            Penalty::Adaptive(Adaptive { first, most, window }) => {
                crate::Penalty::Adaptive { first: first.0, most: most.0, window: window.0 }
            }
        });
        match self.faults {
            Some(faults) => owner.most_faults(faults),
            None => owner,
        }
    }
}
