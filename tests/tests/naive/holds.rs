//! Loads by the window's base: what the registers hold on all ways through a section.

use super::Follow;
use iced_x86::{Code, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory};
use std::collections::BTreeMap;

/// Displacements from here on are too far. Twice as many bytes behind the window are never mapped.
const FAR: u64 = 32 << 10;

/// The sure content of a register.
#[derive(Clone, Copy, PartialEq)]
enum Holds {
    Anything,
    Base,
    /// A number below 2^32.
    Number,
}

type State = [Holds; 16];
const UNKNOWN: State = [Holds::Anything; 16];

/// Says whether the registers of an operand decide whether it stays in the window and the guard.
pub fn decide(instruction: &Instruction, memory: &UsedMemory) -> bool {
    instruction.memory_base().is_gpr64()
        && instruction.memory_index().is_gpr64()
        && memory.scale() == 1
        && memory.displacement() < FAR
}

impl Follow<'_> {
    /// Checks the loads whose registers decide.
    pub fn check_holds(&self) -> Result<(), String> {
        if self.based.is_empty() {
            return Ok(());
        }
        let states = self.states();
        for at in &self.based {
            let instruction = Self::decode(self.text.bytes, *at).ok_or("no instruction")?;
            let state = states.get(at).unwrap_or(&UNKNOWN);
            let [base, index] = [instruction.memory_base(), instruction.memory_index()].map(|r| state[r.number()]);
            if base != Holds::Base || index != Holds::Number {
                return Err(format!("{at:#x} `{instruction}`: its registers may hold anything"));
            }
            let mut patches = self.patches(*at, instruction.len() as u64);
            if patches.any(|patch| self.is_displacement(*at, &instruction, patch)) {
                return Err(format!("{at:#x} `{instruction}`: a relocation changes its place"));
            }
        }
        Ok(())
    }

    /// Returns what the registers hold before each instruction that control reaches.
    fn states(&self) -> BTreeMap<u64, State> {
        let mut states: BTreeMap<u64, State> = self.text.roots.iter().map(|at| (*at, UNKNOWN)).collect();
        let mut todo = self.text.roots.clone();
        while let Some(at) = todo.pop() {
            let Some(instruction) = Self::decode(self.text.bytes, at) else { continue };
            let after = self.after(at, &instruction, states[&at]);
            let (next, target) = (instruction.next_ip(), instruction.near_branch_target());
            let ways = match instruction.flow_control() {
                FlowControl::Next => vec![(next, after)],
                FlowControl::UnconditionalBranch => vec![(target, after)],
                FlowControl::ConditionalBranch => vec![(target, after), (next, after)],
                FlowControl::Call => vec![(target, UNKNOWN), (next, UNKNOWN)],
                FlowControl::IndirectCall => vec![(next, UNKNOWN)],
                _ => Vec::new(),
            };
            // Relocated branches lead to symbols, from which the ways begin.
            for (to, state) in ways.into_iter().filter(|(to, _)| self.reached.contains_key(to)) {
                let joined = match states.get(&to) {
                    Some(old) => std::array::from_fn(|n| if old[n] == state[n] { old[n] } else { Holds::Anything }),
                    None => state,
                };
                if states.insert(to, joined) != Some(joined) {
                    todo.push(to);
                }
            }
        }
        states
    }

    /// Returns what the registers hold after an instruction.
    fn after(&self, at: u64, instruction: &Instruction, before: State) -> State {
        let to = instruction.op0_register();
        let header = instruction.code() == Code::Mov_r64_rm64
            && instruction.segment_prefix() == Register::GS
            && [instruction.memory_base(), instruction.memory_index()] == [Register::None; 2]
            && self.names_place(at + instruction.len() as u64 - 4, "__sfi_header");
        if header {
            // Only one base at a time is known, with the numbers that follow it.
            let mut state = UNKNOWN;
            state[to.number()] = Holds::Base;
            return state;
        }
        let mut state = before;
        for used in InstructionInfoFactory::new().info(instruction).used_registers() {
            let reads = matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
            if used.register().is_gpr() && !reads {
                state[used.register().full_register().number()] = Holds::Anything;
            }
        }
        let narrow = matches!(instruction.code(), Code::Mov_r32_rm32 | Code::Mov_rm32_r32 | Code::Lea_r32_m);
        if narrow && to.is_gpr32() && (instruction.code() == Code::Lea_r32_m || instruction.op1_register().is_gpr32()) {
            state[to.number()] = Holds::Number;
        }
        state
    }
}
