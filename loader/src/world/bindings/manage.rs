//! A host's control over bindings and regions while its world exists: connect, disconnect,
//! register, load again, show, hide.

use crate::spec::library::Library;
use crate::spec::{Access, DomainSpec, Entry};
use crate::world::bindings::described::registered;
use crate::world::bindings::manager::{By, Permit, Registered};
use crate::world::calls::call::{Enter, Hold};
use crate::world::calls::host_call::HostCall;
use crate::world::calls::values::Pointer;
use crate::world::error::{BindError, BuildError};
use crate::world::held::World;
use crate::world::links::error::LibraryError;
use crate::world::links::handle::Linked;
use std::sync::Arc;

/// A gateway of a client that leads to an entry point until it is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connected(Pointer);

impl Connected {
    /// Returns the function pointer, in the client's terms.
    pub fn pointer(self) -> Pointer {
        self.0
    }
}

/// Operations on bindings and regions: from outside on a [`World`], or within a host function on
/// the [`HostCall`].
pub trait Manage: Enter {
    /// Connects an import of a client to a registered entry point, `domain.name`, and gives up
    /// its earlier binding. The rules ([`crate::Builder::permit`]) apply.
    ///
    /// # Errors
    /// [`BindError`].
    fn connect(&mut self, client: &str, symbol: &str, entry: &str) -> Result<(), BindError> {
        let mut inner = self.held();
        inner.manager.reshaped = true;
        let client = inner.find(client)?;
        inner.connect(client, Some(symbol), entry).map(drop)
    }

    /// Connects a client through one of its spare gateways ([`DomainSpec::spare_bindings`]), as
    /// `__sfi_connect` does for a client that calls it.
    ///
    /// # Errors
    /// [`BindError`].
    fn connect_spare(&mut self, client: &str, entry: &str) -> Result<Connected, BindError> {
        let mut inner = self.held();
        let client = inner.find(client)?;
        let number = inner.connect(client, None, entry)?;
        Ok(Connected(Pointer(inner.pointer(client, number))))
    }

    /// Disconnects an import of a client, also one that was not connected by name. Calls
    /// through it then fail with [`crate::Status::Unbound`]. Calls in progress through it
    /// return normally.
    ///
    /// # Errors
    /// [`BindError`].
    fn disconnect(&mut self, client: &str, symbol: &str) -> Result<(), BindError> {
        let mut inner = self.held();
        inner.manager.reshaped = true;
        let client = inner.find(client)?;
        inner.disconnect(client, symbol)
    }

    /// Registers a global function of a domain as an entry point, `domain.name`. Imports that
    /// wait for it are connected. Each later life of the domain offers it, also after the domain is
    /// restarted or loaded again, until the host takes it back. While the domain has no function of
    /// that name, the entry point leads nowhere. Registering it again in the same way is no error.
    ///
    /// # Errors
    /// [`BuildError::Signature`], [`BuildError::Bind`].
    fn register(&mut self, domain: &str, name: &str, entry: Entry) -> Result<(), BuildError> {
        let mut inner = self.held();
        inner.manager.reshaped = true;
        let index = inner.find(domain).map_err(BindError::from)?;
        let (name, entry) = registered(index, domain, (name, &entry), &inner.hosts)?;
        inner.register(index, &name, Registered { by: By::Host, ..entry })?;
        Ok(inner.connect_waiting(false)?)
    }

    /// Takes an entry point back. Bindings to it then lead nowhere. The domain does not offer it
    /// again, also after it is restarted or loaded again, until the host registers it.
    ///
    /// # Errors
    /// [`BindError::Entry`].
    fn unregister(&mut self, entry: &str) -> Result<(), BindError> {
        let mut inner = self.held();
        inner.manager.reshaped = true;
        inner.withdraw(entry)
    }

    /// Adds a rule, see [`crate::Builder::permit`].
    fn permit(&mut self, client: &str, entry: &str) {
        self.held().manager.rules.permits.push(Permit { client: client.to_owned(), entry: entry.to_owned() });
    }

    /// Loads a domain again at a fresh place, from other objects or from the same ones. Its
    /// memory is new, and shared regions stay. Bindings to it are redirected to its functions
    /// of the same names, or lead nowhere. [`crate::TypedFn`]s find their function again by its
    /// name. If it fails before the initialisers run, the old domain stays.
    ///
    /// # Errors
    /// [`BindError::Active`] if a call in progress returns to it, [`BindError::Busy`], and the
    /// other errors of building a world.
    fn reload(&mut self, mut spec: DomainSpec) -> Result<(), BuildError> {
        let mut held = self.held();
        held.manager.reshaped = true;
        spec.clock &= held.time.clock;
        let index = held.find(&spec.name).map_err(BindError::from)?;
        held.reserve_callbacks(&mut spec);
        held.load_again(index, Arc::new(spec), true)
    }

    /// Links rewritten objects into a domain while it lives, and runs their initialisers. The
    /// domain's data stays. [`DomainSpec::link_room`] reserves the room.
    ///
    /// The objects are verified like the domain's own, for its mode and policy, and again where
    /// they run. They may refer to each other, to global symbols of the domain, to its imports and
    /// regions, and to libraries that were linked before. They replace no symbol of the domain.
    ///
    /// # Errors
    /// [`LibraryError`]. Before the initialisers run, an error leaves the domain as it was.
    fn link(&mut self, domain: &str, library: &Library) -> Result<Linked, LibraryError> {
        let mut held = self.held();
        let index = held.find(domain)?;
        held.link(index, library)
    }

    /// Runs the finalisers of a library and takes it out of its domain. Function pointers into it
    /// that the domain kept then trap, bindings to its functions lead nowhere, and functions that
    /// the host looked up are gone.
    ///
    /// # Errors
    /// [`LibraryError::Gone`], [`LibraryError::Needed`], [`LibraryError::Dead`],
    /// [`LibraryError::Active`] if a call in progress returns into it, and
    /// [`LibraryError::Finaliser`].
    fn unlink(&mut self, library: Linked) -> Result<(), LibraryError> {
        self.held().unlink(library)
    }

    /// Makes a shared region visible to a domain, at its one window offset, or changes the
    /// domain's access to it.
    ///
    /// # Errors
    /// [`BindError::Unknown`], [`BindError::Memory`].
    fn make_visible(&mut self, domain: &str, region: &str, access: Access) -> Result<(), BindError> {
        self.held().make_visible(domain, region, Some(access))
    }

    /// Takes a region out of a domain's window. Pointers into it that the domain kept then
    /// fault, and the fault names the region.
    ///
    /// # Errors
    /// As for `make_visible`.
    fn make_invisible(&mut self, domain: &str, region: &str) -> Result<(), BindError> {
        self.held().make_visible(domain, region, None)
    }

    /// Returns the address of a region that a domain sees. It is equal for all domains, as long
    /// as the world lives.
    fn region_in(&mut self, domain: &str, region: &str) -> Option<Pointer> {
        let inner = self.held();
        let index = inner.find(domain).ok()?;
        inner.region_at(index, region).map(|(at, _)| Pointer(at))
    }
}

impl Manage for World {}
impl Manage for HostCall<'_> {}
