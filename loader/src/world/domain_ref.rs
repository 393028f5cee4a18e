//! A domain as hosts see it.

use crate::fault::report::Fault;
use crate::gate::ids::DomainId;
use crate::gate::records::Status;
use crate::vm::memory;
use crate::world::calls::call::TypedFn;
use crate::world::calls::values::Function;
use crate::world::domain::Domain;
use crate::world::error::{CallError, LookupError};
use crate::world::inner::Inner;
use sfi_verifier::Usage;

/// What placement was drawn from, see [`DomainRef::placement`]. Nothing in a window lies at a known
/// offset, so a search tries addresses: one for each length of the longest run, `windows * (4 GiB /
/// run)` places for a domain of one run. Instances of one image share their offsets: a domain that
/// knows its own knows theirs, and tries windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementReport {
    /// Equally likely places of a window.
    pub windows: u64,
    /// Windows of this process now.
    pub live: u64,
    /// The parts that may move inside the window.
    pub parts: Vec<PartPlaces>,
    /// Bytes of the window that are mapped, shared regions included.
    pub mapped: u64,
    /// Bytes of the longest run of them.
    pub run: u64,
}

/// A part of a window that was placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartPlaces {
    /// What it holds.
    pub name: &'static str,
    /// Length in bytes.
    pub bytes: u64,
    /// Equally likely places for it in the window when it was drawn; 1: fixed.
    pub places: u64,
}

/// A domain of a world.
#[derive(Clone, Copy)]
pub struct DomainRef<'w> {
    pub(crate) inner: &'w Inner,
    pub(crate) index: DomainId,
}

impl std::fmt::Debug for DomainRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DomainRef").field(&self.domain().name).finish()
    }
}

impl<'w> DomainRef<'w> {
    pub(crate) fn domain(&self) -> &'w Domain {
        &self.inner.domains[self.index]
    }

    /// A global function, with the type that the caller says it has.
    ///
    /// # Errors
    /// [`LookupError::Function`].
    pub fn export<F: Function>(&self, function: &str) -> Result<TypedFn<F>, LookupError> {
        let domain = self.domain();
        let offset = domain
            .image
            .functions_by_name
            .get(function)
            .copied()
            .ok_or_else(|| LookupError::Function { domain: domain.name.clone(), function: function.to_owned() })?;
        Ok(self.inner.typed(self.index, offset, Some(function.into())))
    }

    /// The function that a function pointer of the domain means.
    ///
    /// # Errors
    /// [`CallError::NotAFunction`].
    pub fn function_at<F: Function>(&self, pointer: u64) -> Result<TypedFn<F>, CallError> {
        self.inner.function_at(self.index, pointer)
    }

    /// The address of a global variable, in the domain's terms.
    pub fn symbol(&self, name: &str) -> Option<crate::Pointer> {
        let domain = self.domain();
        let variable = || Some(domain.window.at(*domain.image.variables.get(name)?));
        let found = domain.image.regions.get(name).copied().or_else(variable);
        found.map(|address| crate::Pointer(address.number()))
    }

    /// What is mapped where, as window offsets.
    pub fn segments(&self) -> &'w [memory::Segment] {
        self.domain().segments()
    }

    /// Where the domain might have been placed, and how large it is: what somebody has to guess who
    /// looks for it.
    pub fn placement(&self) -> PlacementReport {
        let parts = self.domain().image.choices.iter();
        PlacementReport {
            windows: self.inner.supply.places.space.windows(),
            live: crate::vm::ledger::live(),
            parts: parts.map(|(name, bytes, places)| PartPlaces { name, bytes: *bytes, places: *places }).collect(),
            mapped: self.domain().image.segments.iter().map(|s| s.length).sum(),
            run: longest_run(&self.domain().image.segments),
        }
    }

    /// The domain's text is a sealed file that every instance of its image maps. Not so if the text
    /// holds an address of its window, as `movabs` does; then each has a copy.
    pub fn shares_text(&self) -> bool {
        self.domain().image.shares_text()
    }

    /// The window's base. A secret: with it other domains find this one's memory.
    pub fn secret_base(&self) -> u64 {
        self.domain().window.base().number()
    }

    /// What the domain's text uses, from the verifier.
    pub fn usage(&self) -> Usage {
        self.domain().image.usage
    }

    /// The domain faulted and was not restarted.
    pub fn is_dead(&self) -> bool {
        // SAFETY: the state lives as long as the world.
        unsafe { (*self.domain().state).dead != Status::Ok }
    }

    /// The last fault, also if another domain's call met it, or the one after which the domain was
    /// restarted automatically.
    pub fn last_fault(&self) -> Option<Fault> {
        // SAFETY: the state lives as long as the world.
        let signal = unsafe { (*self.domain().state).fault.signal };
        // SAFETY: as above; no call is in progress.
        let last = (signal != 0).then(|| unsafe { Domain::describe(&self.inner.domains, self.index) });
        last.or_else(|| self.domain().crash.clone())
    }

    /// How often the domain was restarted because its specification says so ([`crate::Restart`]).
    pub fn restarts(&self) -> u32 {
        self.domain().restarts
    }
}

/// Bytes of the longest run of segments without a gap, of those in the order of their offsets.
fn longest_run(segments: &[memory::Segment]) -> u64 {
    let (mut longest, mut start, mut end) = (0, 0, 0);
    for segment in segments {
        if segment.offset != end {
            start = segment.offset;
        }
        end = segment.end();
        longest = longest.max(end - start);
    }
    longest
}
