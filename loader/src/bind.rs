//! Bindings: which crossing each stub leads to, and what the record of it says.

use crate::context::{Binding, DomainState, flag};
use crate::gate::{MXCSR_ALL, MXCSR_CONTROL, Table};
use crate::signature::{Outcome, Signature};
use crate::stubs::Way;
use crate::world::Domain;
use sfi_verifier::{Usage, Vectors};

/// Where a crossing leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// Nowhere: calls get [`crate::status::UNBOUND`].
    Nobody,
    /// A host function, by index.
    Host(usize),
    /// A function of a domain, by name: it is found again when the domain is loaded again.
    Function {
        /// Index of the domain.
        domain: usize,
        /// Global function.
        function: String,
    },
    /// A function of a domain that it named by a pointer; gone when the domain is loaded again.
    Code {
        /// Index of the domain.
        domain: usize,
        /// Window offset.
        offset: u64,
    },
}

impl To {
    /// The domain that is called.
    pub fn domain(&self) -> Option<usize> {
        match self {
            To::Function { domain, .. } | To::Code { domain, .. } => Some(*domain),
            To::Nobody | To::Host(_) => None,
        }
    }
}

/// Index of a host function that does not exist.
pub const NO_HOST: u32 = u32::MAX;

/// One stub's crossing, as the manager knows it. Its index is that of the stub's [`Binding`].
#[derive(Clone, Debug)]
pub struct Record {
    /// Index of the domain whose stub leads here.
    pub client: usize,
    /// The import, or `None` for a stub that is bound at run time.
    pub symbol: Option<String>,
    /// How the stub finds its gate.
    pub way: Way,
    /// Where it leads now.
    pub to: To,
    /// The registered name by which it was connected.
    pub entry: Option<String>,
    /// What crosses.
    pub signature: Option<Signature>,
    /// What an import that connects by name says about that; an entry point must agree.
    pub expected: Option<Signature>,
    /// rax for the caller when the call fails.
    pub on_fault: u64,
}

/// What all bindings of a world have in common.
pub struct Common<'w> {
    /// The gates.
    pub table: &'w Table,
    /// The domains.
    pub domains: &'w [Domain],
    /// A domain that nobody can enter.
    pub nobody: *mut DomainState,
}

impl Common<'_> {
    /// Some domain leaves x87 state behind.
    pub fn any_x87(&self) -> bool {
        self.domains.iter().any(|d| d.image.usage.x87)
    }

    /// The record's binding. A function that its domain does not have is nobody.
    pub fn binding(&self, record: &Record) -> Binding {
        let mut binding = policy(record.signature.as_ref(), self.table);
        binding.callee = self.nobody;
        binding.gate = self.table.gate_domain;
        binding.on_fault = record.on_fault;
        let from = self.domains[record.client].image.usage;
        binding.flags |= if zmm(from) { flag::ZMM_OUT } else { 0 };
        match &record.to {
            To::Nobody if record.way != Way::Host => {}
            To::Nobody | To::Host(_) => {
                let host = if let To::Host(host) = record.to { host as u32 } else { NO_HOST };
                binding.gate = self.table.gate_host;
                binding.host = host;
                binding.flags &= !(flag::STACK | flag::POINTERS | flag::POINTER_RESULT);
                let floats = record.signature.as_ref().is_none_or(|s| s.registers().floats > 0);
                binding.flags |= if floats { flag::FLOATS } else { 0 };
                binding.flags |= if self.any_x87() { flag::X87 } else { 0 };
                binding.flags |= if from.mxcsr { flag::MXCSR } else { 0 };
            }
            To::Function { domain, .. } | To::Code { domain, .. } => {
                let callee = &self.domains[*domain];
                let offset = match &record.to {
                    To::Function { function, .. } => callee.image.functions_by_name.get(function).copied(),
                    To::Code { offset, .. } => Some(*offset),
                    _ => None,
                };
                let Some(offset) = offset else { return binding };
                binding.callee = callee.state;
                binding.base = callee.window.base();
                binding.entry = callee.window.base() + offset;
                let to = callee.image.usage;
                binding.flags |= if zmm(to) { flag::ZMM_IN } else { 0 };
                binding.flags |= if from.x87 || to.x87 { flag::X87 } else { 0 };
                binding.flags |= if from.mxcsr || to.mxcsr { flag::MXCSR } else { 0 };
            }
        }
        binding
    }

    /// The binding of the host function that restarts domains, which any domain's call may meet.
    pub fn reviver(&self, host: usize) -> Binding {
        let mut binding = policy(None, self.table);
        binding.gate = self.table.gate_host;
        binding.host = host as u32;
        let usages = || self.domains.iter().map(|d| d.image.usage);
        binding.flags |= if usages().any(zmm) { flag::ZMM_OUT } else { 0 };
        binding.flags |= if usages().any(|u| u.x87) { flag::X87 } else { 0 };
        binding.flags |= if usages().any(|u| u.mxcsr) { flag::MXCSR } else { 0 };
        binding
    }
}

fn zmm(usage: Usage) -> bool {
    usage.vectors >= Vectors::Zmm
}

/// The bits of MXCSR that matter to a domain: without an instruction that names it, the status flags are invisible.
pub fn mxcsr_mask(usage: Usage) -> u32 {
    if usage.mxcsr { MXCSR_ALL } else { MXCSR_CONTROL }
}

/// What a signature lets through.
fn policy(signature: Option<&Signature>, table: &Table) -> Binding {
    let mut binding = Binding {
        callee: std::ptr::null_mut(),
        entry: 0,
        arguments: table.arguments[6][9],
        results: table.results_any,
        failed: table.failed,
        on_fault: 0,
        flags: 0,
        stack_words: 0,
        pointers: 0,
        host: 0,
        mxcsr: MXCSR_CONTROL,
        base: 0,
        gate: table.gate_domain,
    };
    let Some(signature) = signature else { return binding };
    let registers = signature.registers();
    binding.arguments = table.arguments[registers.ints][registers.floats];
    binding.stack_words = registers.stack_words;
    binding.pointers = registers.pointers;
    binding.flags |= if registers.stack_words > 0 { flag::STACK } else { 0 };
    binding.flags |= if registers.pointers != 0 { flag::POINTERS } else { 0 };
    binding.results = match signature.outcome {
        Outcome::Void => table.results_void,
        Outcome::Int | Outcome::Pointer => table.results_int,
        Outcome::Float => table.results_float,
    };
    binding.flags |= if signature.outcome == Outcome::Pointer { flag::POINTER_RESULT } else { 0 };
    binding
}
