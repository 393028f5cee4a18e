//! Compositions that are found by their numbers.

use crate::asm::{Alu, Asm, Condition, RAX, RCX, RDI, RDX, RSI, Rm};
use crate::error::ComposeError;
use crate::object::object;
use crate::options::Options;
use crate::pipe::{Pipe, Width};
use crate::role::Role;
use crate::transfer::Transfer;

/// The number of a composition in its [`Catalog`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u32);

/// Compositions for one domain, with numbers from 0 on.
#[derive(Clone, Debug)]
pub struct Catalog {
    options: Options,
    transfers: Vec<Transfer>,
}

impl Catalog {
    /// Returns a catalog without compositions.
    pub fn new(options: Options) -> Catalog {
        Catalog { options, transfers: Vec::new() }
    }

    /// Composes pipes. The function's name is `dilp_` and its number.
    ///
    /// # Errors
    /// As [`Transfer::compose`].
    pub fn add(&mut self, pipes: &[Pipe]) -> Result<TransferId, ComposeError> {
        let number = self.transfers.len() as u32;
        self.transfers.push(Transfer::compose(format!("dilp_{number}"), pipes, &self.options)?);
        Ok(TransferId(number))
    }

    /// Returns a composition.
    pub fn get(&self, id: TransferId) -> Option<&Transfer> {
        self.transfers.get(id.0 as usize)
    }

    /// Returns all compositions in the order of their numbers.
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// Returns one object with all functions, and with one more that finds them by number:
    /// `uint64_t dilp_run(uint64_t id, void *destination, const void *source, uint64_t length,
    /// uint64_t *registers)`. It returns `UINT64_MAX` for numbers of no composition.
    ///
    /// # Errors
    /// As [`object()`].
    pub fn object(&self) -> Result<Vec<u8>, ComposeError> {
        object(self.options.mode, self.transfers.iter().chain([&self.finder()]))
    }

    /// Returns the function that finds the others. It follows them directly in the text, so their
    /// distances are known. It halves the numbers that are left with each comparison.
    fn finder(&self) -> Transfer {
        let mut asm = Asm::new();
        asm.role(Role::Entry);
        if self.options.budget {
            asm.with_budget();
            asm.charge();
        }
        let mut ends = Vec::with_capacity(self.transfers.len() + 1);
        ends.push(0);
        for transfer in &self.transfers {
            ends.push(ends[ends.len() - 1] + transfer.code.len());
        }
        let (starts, total) = (&ends[..self.transfers.len()], ends[self.transfers.len()]);
        for (to, from) in [(RAX, RDI), (RDI, RSI), (RSI, RDX), (RDX, RCX), (RCX, 8)] {
            asm.extend(Width::W64, to, Rm::Reg(from));
        }
        find(&mut asm, 0, starts, total);
        asm.end();
        asm.resolve();
        let names = Vec::new();
        let (code, roles) = (asm.code, asm.roles);
        Transfer { name: "dilp_run".into(), code, roles, names, registers: 0, unit: 1, is_vector: false }
    }
}

/// Emits the search for the number in rax among those from `first` on.
fn find(asm: &mut Asm, first: u64, starts: &[usize], total: usize) {
    match starts {
        [] => {
            asm.number(RAX, u64::MAX);
            asm.ret();
        }
        [start] => {
            let other = asm.label();
            asm.alu_number(Alu::Cmp, Width::W64, RAX, first);
            asm.jump_if(Condition::NotEqual, other);
            asm.jump_before(total - start);
            asm.bind(other);
            find(asm, 0, &[], total);
        }
        _ => {
            let half = starts.len() / 2;
            let below = asm.label();
            asm.alu_number(Alu::Cmp, Width::W64, RAX, first + half as u64);
            asm.jump_if(Condition::Below, below);
            find(asm, first + half as u64, &starts[half..], total);
            asm.bind(below);
            find(asm, first, &starts[..half], total);
        }
    }
}
