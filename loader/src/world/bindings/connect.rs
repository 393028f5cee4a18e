//! A host's control over bindings while its world exists: connect, disconnect, register, load
//! again.

use crate::fault::meter;
use crate::spec::{DomainSpec, Entry};
use crate::world::bindings::described::registered;
use crate::world::bindings::manager::Permit;
use crate::world::calls::call::TypedFn;
use crate::world::calls::host_call::HostCall;
use crate::world::calls::values::Function;
use crate::world::domain_ref::DomainRef;
use crate::world::error::{BindError, BuildError, LookupError};
use crate::world::held::World;

/// A gateway of a client that leads to an entry point until it is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connected(crate::Pointer);

impl Connected {
    /// Returns the function pointer, in the client's terms.
    pub fn pointer(self) -> crate::Pointer {
        self.0
    }
}

/// The time that a domain used, see [`World::used`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Wall clock.
    pub wall: std::time::Duration,
    /// Processor time.
    pub cpu: std::time::Duration,
}

macro_rules! operations {
    () => {
        /// Connects an import of a client to a registered entry point, `domain.name`, and gives up
        /// its earlier binding. The rules ([`crate::Builder::permit`]) apply.
        ///
        /// # Errors
        /// [`BindError`].
        pub fn connect(&mut self, client: &str, symbol: &str, entry: &str) -> Result<(), BindError> {
            let inner = self.record();
            inner.manager.reshaped = true;
            let client = inner.find(client)?;
            inner.connect(client, Some(symbol), entry).map(drop)
        }

        /// Connects a client through one of its spare gateways ([`DomainSpec::spare_bindings`]), as
        /// `__sfi_connect` does for a client that calls it.
        ///
        /// # Errors
        /// [`BindError`].
        pub fn connect_spare(&mut self, client: &str, entry: &str) -> Result<Connected, BindError> {
            let inner = self.record();
            let client = inner.find(client)?;
            let number = inner.connect(client, None, entry)?;
            Ok(Connected(crate::Pointer(inner.pointer(client, number))))
        }

        /// Disconnects an import of a client, also one that was not connected by name. Calls
        /// through it then fail with [`crate::Status::Unbound`]. Calls in progress through it
        /// return normally.
        ///
        /// # Errors
        /// [`BindError`].
        pub fn disconnect(&mut self, client: &str, symbol: &str) -> Result<(), BindError> {
            let inner = self.record();
            inner.manager.reshaped = true;
            let client = inner.find(client)?;
            inner.disconnect(client, symbol)
        }

        /// Registers a global function of a domain as an entry point, `domain.name`. Imports that
        /// wait for it are connected.
        ///
        /// # Errors
        /// [`BuildError::Signature`], [`BuildError::Bind`].
        pub fn register(&mut self, domain: &str, name: &str, entry: Entry) -> Result<(), BuildError> {
            let inner = self.record();
            inner.manager.reshaped = true;
            let index = inner.find(domain).map_err(BindError::from)?;
            let (name, entry) = registered(index, domain, (name, &entry), &inner.hosts)?;
            inner.register(index, &name, entry)?;
            Ok(inner.connect_waiting(false)?)
        }

        /// Takes an entry point back. Bindings to it then lead nowhere.
        ///
        /// # Errors
        /// [`BindError::Entry`].
        pub fn unregister(&mut self, entry: &str) -> Result<(), BindError> {
            let inner = self.record();
            inner.manager.reshaped = true;
            inner.unregister(entry)
        }

        /// Adds a rule, see [`crate::Builder::permit`].
        pub fn permit(&mut self, client: impl Into<String>, entry: impl Into<String>) {
            self.record().manager.permits.push(Permit { client: client.into(), entry: entry.into() });
        }

        /// Loads a domain again at a fresh place, from other objects or from the same ones. Its
        /// memory is new, and shared regions stay. Bindings to it are redirected to its functions
        /// of the same names, or lead nowhere. [`crate::TypedFn`]s find their function again by its
        /// name. If it fails before the initialisers run, the old domain stays.
        ///
        /// # Errors
        /// [`BindError::Active`] if a call in progress returns to it, [`BindError::Busy`], and the
        /// other errors of building a world.
        pub fn reload(&mut self, mut spec: DomainSpec) -> Result<(), BuildError> {
            let mut held = self.held();
            held.manager.reshaped = true;
            spec.clock &= held.clock;
            let index = held.find(&spec.name).map_err(BindError::from)?;
            held.reserve_callbacks(&mut spec);
            held.load_again(index, std::sync::Arc::new(spec), true)
        }
    };
}

impl DomainRef<'_> {
    /// Returns the domain's specification, to load it again with changes.
    pub fn spec(&self) -> DomainSpec {
        DomainSpec::clone(&self.domain().spec)
    }
}

impl World {
    operations!();

    /// Gives a domain its whole budget again.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn refill(&mut self, domain: &str) -> Result<(), LookupError> {
        let inner = self.record();
        let index = inner.find(domain)?;
        inner.refill(index);
        Ok(())
    }

    /// Returns the time that a domain used of its budget. Only domains of worlds with a budget of
    /// some domain are charged.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn used(&mut self, domain: &str) -> Result<Used, LookupError> {
        let inner = self.record();
        let index = inner.find(domain)?;
        // SAFETY: the state lives as long as the world.
        let (wall, cpu) = meter::used(unsafe { &(*inner.domains[index].state).account });
        Ok(Used { wall, cpu })
    }

    /// Returns the names of all entry points.
    pub fn entries(&mut self) -> Vec<String> {
        self.record().manager.entries.keys().cloned().collect()
    }
}

/// Operations on bindings from within a host function.
impl HostCall<'_> {
    operations!();

    /// Returns a global function of any domain, to call it:
    /// `cx.export::<fn(u64) -> u64>("codec", "size")?.call(cx, (1,))`.
    ///
    /// # Errors
    /// [`LookupError`].
    pub fn export<F: Function>(&mut self, domain: &str, function: &str) -> Result<TypedFn<F>, LookupError> {
        let inner = self.record();
        let index = inner.find(domain)?;
        let offset = inner.domains[index]
            .image
            .functions_by_name
            .get(function)
            .copied()
            .ok_or_else(|| LookupError::Function { domain: domain.to_owned(), function: function.to_owned() })?;
        Ok(inner.typed(index, offset, Some(function.into())))
    }

    /// Returns a pointer of one domain in the terms of another, with the offset in its window, as
    /// the gates pass arguments that a signature calls `ptr`. Null stays null, and a pointer into a
    /// shared region that the domain sees stays as it is.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn rebase(&mut self, domain: &str, pointer: u64) -> Result<u64, LookupError> {
        let inner = self.record();
        Ok(inner.domains[inner.find(domain)?].rebase(pointer))
    }
}
