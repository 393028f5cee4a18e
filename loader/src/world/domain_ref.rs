//! A domain as hosts see it.

use crate::fault::report::Fault;
use crate::gate::ids::DomainId;
use crate::gate::records::Status;
use crate::vm::memory::{self, MemoryError};
use crate::world::calls::call::TypedFn;
use crate::world::calls::host_call::Tenant;
use crate::world::calls::values::Function;
use crate::world::domain::Domain;
use crate::world::error::{CallError, LookupError};
use crate::world::inner::Inner;
use sfi_verifier::Usage;
use std::borrow::Cow;

/// The choices that a domain's placement was drawn from, see [`DomainRef::placement`]. Nothing in a
/// window lies at a known offset, so a search tries addresses: one for each length of the longest
/// run, `windows * (4 GiB / run)` places for a domain of one run. Instances of one image share
/// their offsets: a domain that knows its own knows theirs, and tries windows.
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
    /// The name of its contents.
    pub name: Cow<'static, str>,
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

    /// Returns the domain's name. That of an instance is its domain's with a number.
    pub fn name(&self) -> &'w str {
        &self.domain().name
    }

    /// Finds a global function. You state its type.
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

    /// Finds the function that a function pointer of the domain means.
    ///
    /// # Errors
    /// [`CallError::NotAFunction`].
    pub fn function_at<F: Function>(&self, pointer: u64) -> Result<TypedFn<F>, CallError> {
        self.inner.function_at(self.index, pointer)
    }

    /// Returns the address of a global variable, or the function pointer of a global function
    /// ([`crate::DomainSpec::pointers`]), in the domain's terms.
    pub fn symbol(&self, name: &str) -> Option<crate::Pointer> {
        let Domain { image, window, .. } = self.domain();
        let variable = || image.variables.get(name).map(|offset| window.at(*offset));
        let function = || image.pointer(name).map(|slot| window.address(slot));
        let found = image.regions.get(name).copied().or_else(variable).or_else(function);
        found.map(|address| crate::Pointer(address.number()))
    }

    /// Says whether a range, at a pointer in the domain's terms, is memory that the domain itself
    /// may write to.
    pub fn may_write(&self, pointer: u64, length: usize) -> bool {
        let domain = self.domain();
        domain.window.place(pointer).is_some() && domain.memory().writable(pointer, length).is_ok()
    }

    /// Returns the mapped segments, as window offsets.
    pub fn segments(&self) -> &'w [memory::Segment] {
        self.domain().segments()
    }

    /// Reports the choices that an attacker who looks for the domain must guess: its possible
    /// places, and its size.
    pub fn placement(&self) -> PlacementReport {
        let parts = self.domain().image.choices.iter();
        PlacementReport {
            windows: self.inner.supply.places.space.windows(),
            live: crate::vm::ledger::live(),
            parts: parts
                .map(|(name, bytes, places)| PartPlaces { name: name.clone(), bytes: *bytes, places: *places })
                .collect(),
            mapped: self.domain().image.segments.iter().map(|s| s.length).sum(),
            run: longest_run(&self.domain().image.segments),
        }
    }

    /// Says whether the domain's text is a sealed file that every instance of its image maps. If
    /// the text holds an address of its window, as `movabs` does, each instance has a copy.
    pub fn shares_text(&self) -> bool {
        self.domain().image.shares_text()
    }

    /// Opens all pages that the domain closed ([`crate::HostCall::protect_heap`]), and lets it
    /// close none from now on, nor unlink a library. A host that uses addresses of the domain's
    /// memory calls this first.
    ///
    /// # Errors
    /// [`MemoryError::TooManyRanges`] if the kernel opens none.
    pub fn keep_open(&self) -> Result<(), MemoryError> {
        self.domain().viewed.set(true);
        self.domain().window.open().map_err(|_| MemoryError::TooManyRanges)
    }

    /// Returns the window's base. It is a secret, because other domains can find this one's memory
    /// with it.
    pub fn secret_base(&self) -> u64 {
        self.domain().window.base().number()
    }

    /// Returns the verifier's report about the registers and features that the domain's text uses.
    pub fn usage(&self) -> Usage {
        self.domain().usage
    }

    /// Tells the domain's present life apart from its others, as [`crate::HostCall::tenant`] does.
    pub fn tenant(&self) -> Tenant {
        Tenant::new(self.index, self.domain().birth)
    }

    /// Says whether the domain faulted and was not restarted.
    pub fn is_dead(&self) -> bool {
        // SAFETY: the state lives as long as the world.
        unsafe { (*self.domain().state).dead != Status::Ok }
    }

    /// Returns the last fault, also if a call of another domain met it. After an automatic restart
    /// it is the fault before the restart.
    pub fn last_fault(&self) -> Option<Fault> {
        // SAFETY: the state lives as long as the world.
        let signal = unsafe { (*self.domain().state).fault.signal };
        // SAFETY: as above; no call is in progress.
        let last = (signal != 0).then(|| unsafe { Domain::describe(&self.inner.domains, self.index) });
        last.or_else(|| self.domain().crash.clone())
    }

    /// Returns the number of automatic restarts ([`crate::Restart`]).
    pub fn restarts(&self) -> u32 {
        self.inner.lane.as_ref().map_or(self.domain().restarts, |lane| lane.restarts(self.index))
    }

    /// Returns the instructions that the last call of the host left of the domain's budget. `None`
    /// if it has no such budget.
    pub fn instructions_left(&self) -> Option<u64> {
        // SAFETY: the state lives as long as the world, and no call is in progress.
        self.domain().spec.instructions.map(|_| unsafe { (*self.domain().state).left })
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
