//! Bindings: the crossing of each stub, and the contents of its record.

use crate::gate;
use crate::gate::ids::{ById, DomainId, HostId};
use crate::gate::records::{Binding, DomainState, FUNCTIONS, Status, flag};
use crate::gate::stubs::Way;
use crate::gate::{MXCSR_ALL, MXCSR_CONTROL, Table, vectors};
use crate::spec::Trust;
use crate::spec::signature::Signature;
use crate::vm::address::{HostAddress, WindowOffset};
use crate::world::bindings::policy::{BindingReport, Crossing, Side, explain_host};
use crate::world::calls::host::Host;
use crate::world::domain::Domain;
use crate::world::lanes::Lane;
use sfi_contract::Mode;
use sfi_verifier::{Usage, Vectors};

/// The target of a crossing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// Nowhere: calls get [`crate::Status::Unbound`].
    Nobody,
    /// A host function.
    Host(HostId),
    /// A function of a domain, by name. It is found again after the domain was loaded again.
    Function {
        /// The domain.
        domain: DomainId,
        /// Global function.
        function: String,
    },
    /// A function of a domain that it named by a pointer. It is gone when the domain is loaded
    /// again.
    Code {
        /// The domain.
        domain: DomainId,
        /// Its place in the domain's window.
        offset: WindowOffset,
    },
}

impl To {
    /// Returns the domain that is called.
    pub(crate) fn domain(&self) -> Option<DomainId> {
        match self {
            To::Function { domain, .. } | To::Code { domain, .. } => Some(*domain),
            To::Nobody | To::Host(_) => None,
        }
    }

    /// Returns the place in the callee's window that it enters.
    pub(crate) fn place_in(&self, callee: &Domain) -> Option<WindowOffset> {
        match self {
            To::Function { function, .. } => callee.image.functions_by_name.get(function).copied(),
            To::Code { offset, .. } => Some(*offset),
            To::Nobody | To::Host(_) => None,
        }
    }
}

/// One stub's crossing, as the manager knows it. Its number is that of the stub's [`Binding`].
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// The domain whose stub leads here.
    pub client: DomainId,
    /// The import, or `None` for a stub that is bound at run time.
    pub symbol: Option<String>,
    /// The stub is for functions that are passed to the domain, see `bindings/lend.rs`.
    pub lent: bool,
    /// The way in which the stub finds its gate.
    pub way: Way,
    /// The present target.
    pub to: To,
    /// The registered name by which it was connected.
    pub entry: Option<String>,
    /// The declared arguments and result.
    pub signature: Option<Signature>,
    /// The signature of an import that connects by name. An entry point must have an equal one.
    pub expected: Option<Signature>,
    /// The caller's rax when the call fails.
    pub on_fault: u64,
    /// The trust between the two sides.
    pub trust: Trust,
}

impl Record {
    /// Says whether floats may pass: the signature has some, or there is none.
    pub(crate) fn passes_floats(&self) -> bool {
        self.signature.as_ref().is_none_or(Signature::has_floats)
    }

    /// Says whether the client passes functions to a domain, so that the host lends them during
    /// calls.
    pub(crate) fn passes_functions(&self) -> bool {
        self.to.domain().is_some() && self.signature.as_ref().is_some_and(Signature::has_functions)
    }
}

/// Data that all bindings of a world share.
pub(crate) struct Common<'w> {
    /// The gates.
    pub table: &'w Table,
    /// The domains.
    pub domains: &'w ById<DomainId, Domain>,
    /// The host functions.
    pub hosts: &'w ById<HostId, Host>,
    /// A domain that nobody can enter.
    pub nobody: *mut DomainState,
    /// The shim of calls that pass functions, which the host lends to the callee during the call.
    pub lends: usize,
    /// True if a domain has a budget, so that crossings between domains are charged.
    pub metered: bool,
    /// The lane that the world is, in which domains have doors.
    pub lane: Option<&'w Lane>,
}

impl Common<'_> {
    /// Says whether a domain leaves x87 state behind.
    pub(crate) fn any_x87(&self) -> bool {
        self.domains.iter().any(|d| d.usage.x87)
    }

    /// Returns the record's binding. A function that its domain does not have becomes nobody.
    pub(crate) fn binding(&self, record: &Record) -> Binding {
        let mut binding = Binding { on_fault: record.on_fault, ..self.nowhere() };
        let from = self.client(record.client);
        match &record.to {
            To::Nobody => {}
            To::Host(host) => self.to_host(&mut binding, *host, &from, record.signature.as_ref()),
            _ if record.passes_functions() => {
                let way = (self.lends, std::ptr::null_mut());
                self.to_shim(&mut binding, way, &from, record.signature.as_ref());
            }
            To::Function { domain, .. } | To::Code { domain, .. } => {
                let callee = &self.domains[*domain];
                let Some(offset) = record.to.place_in(callee) else { return binding };
                (binding.callee, binding.server) = (callee.state, callee.state);
                binding.base = callee.window.base();
                binding.entry = callee.window.address(offset);
                self.crossing(record, callee, Some(offset)).apply(&mut binding, self.table);
                if self.metered {
                    gate::meter(&mut binding);
                }
                if let Some(lane) = self.lane {
                    gate::lane(&mut binding, &lane.room(*domain).doors[lane.number]);
                }
            }
        }
        binding
    }

    /// Decides which state calls of the record save, clear and restore. They enter the callee at a
    /// place.
    fn crossing(&self, record: &Record, callee: &Domain, at: Option<WindowOffset>) -> Crossing {
        let (from, mut to) = (self.client(record.client), callee.side());
        // Stubs may use GS, and the text of libraries counts for itself.
        to.usage.gs |= at.is_none_or(|at| !callee.image.has_text(at));
        Crossing::new(record.trust, &from, &to, record.signature.as_ref())
    }

    /// Returns the facts about a client and its instances, which share its bindings. An instance
    /// may have libraries that use more state than the text of the others.
    fn client(&self, client: DomainId) -> Side {
        let side = self.domains[client].side();
        let all = self.domains.iter().filter(|domain| domain.origin == client);
        Side { usage: all.fold(side.usage, |usage, domain| usage.union(domain.usage)), ..side }
    }

    /// Describes the record for people.
    pub(crate) fn report(&self, record: &Record) -> BindingReport {
        let (server, entry, work) = match &record.to {
            To::Nobody => (None, record.entry.clone().unwrap_or_default(), None),
            To::Host(host) => (None, self.hosts[*host].name.clone(), Some(explain_host(self.binding(record).flags))),
            To::Function { domain, .. } | To::Code { domain, .. } => {
                let entry = match &record.to {
                    To::Function { function, .. } => function.clone(),
                    _ => record.entry.clone().unwrap_or_default(),
                };
                let callee = &self.domains[*domain];
                let work = if record.passes_functions() {
                    format!("through the host, which lends functions; {}", explain_host(self.binding(record).flags))
                } else {
                    self.crossing(record, callee, record.to.place_in(callee)).to_string()
                };
                (Some(callee.name.clone()), entry, Some(work))
            }
        };
        BindingReport {
            client: self.domains[record.client].name.clone(),
            symbol: record.symbol.clone(),
            trust: server.is_some().then_some(record.trust),
            server,
            entry,
            signature: record.signature.clone(),
            work,
        }
    }

    /// Returns the binding of the host function that restarts domains, which a call of any domain
    /// may need.
    pub(crate) fn reviver(&self, host: HostId) -> Binding {
        let mut binding = Binding { on_fault: Status::Dead.into(), ..self.nowhere() };
        let usage = self.domains.iter().fold(Usage::default(), |all, d| all.union(d.usage));
        let any = Side { usage, mode: Mode::Write, reads_client_stack: false, passes_floats: true, budgeted: false };
        self.to_host(&mut binding, host, &any, None);
        binding
    }

    /// Fills in a call to a host function. The host is trusted and preserves the registers that the
    /// ABI names. Its results pass with any signature: those that it does not set are 0.
    fn to_host(&self, binding: &mut Binding, host: HostId, caller: &Side, signature: Option<&Signature>) {
        self.to_shim(binding, self.hosts[host].entry(), caller, signature);
    }

    /// Fills in a call to code of the host, by its shim and the shim's data.
    fn to_shim(&self, binding: &mut Binding, way: (usize, *mut ()), caller: &Side, signature: Option<&Signature>) {
        let named = caller.has_vectors();
        (binding.shim, binding.data) = way;
        binding.gate = self.table.gate_host;
        // An argument that the signature does not name may hold a value that the caller does not
        // want to show.
        let named_arguments = signature.map(Signature::registers);
        binding.ints = named_arguments.as_ref().map_or(u32::MAX, |r| r.ints as u32);
        binding.floats = named_arguments.as_ref().map_or(u32::MAX, |r| r.floats as u32);
        binding.stack_words = named_arguments.as_ref().map_or(u32::MAX, |r| r.stack_words);
        binding.pointers = named_arguments.as_ref().map_or(0, |r| r.pointers | r.functions << FUNCTIONS);
        binding.results = self.table.results_host[if named { vectors::KEEP } else { vectors::LEAVE }];
        let flags = [
            // A register that the domain does not name may hold a value of others.
            (flag::FLOATS, named && signature.is_none_or(|s| s.registers().floats > 0)),
            (flag::X87, self.any_x87()),
            (flag::MXCSR, caller.usage.mxcsr),
            (flag::VECTORS, named),
            (flag::CALLER_PAYS, caller.budgeted),
            (flag::ZMM_OUT, caller.usage.vectors >= Vectors::Zmm),
        ];
        binding.flags = flags.iter().filter(|(_, on)| *on).fold(0, |all, (bit, _)| all | bit);
    }

    /// Returns a binding to a domain that nobody can enter.
    fn nowhere(&self) -> Binding {
        Binding {
            callee: self.nobody,
            entry: HostAddress::NULL,
            arguments: 0,
            results: 0,
            failed: self.table.failed,
            on_fault: 0,
            flags: 0,
            failing: 0,
            stack_words: 0,
            pointers: 0,
            ints: 0,
            floats: 0,
            mxcsr: MXCSR_CONTROL,
            base: HostAddress::NULL,
            shim: 0,
            data: std::ptr::null_mut(),
            gate: self.table.gates[0][0][1],
            server: self.nobody,
            metered: [0; 2],
            lane: [0; 3],
        }
    }
}

/// Returns the bits of MXCSR that matter to a domain. Without an instruction that names MXCSR its
/// status flags are invisible.
pub(crate) fn mxcsr_mask(usage: Usage) -> u32 {
    if usage.mxcsr { MXCSR_ALL } else { MXCSR_CONTROL }
}
