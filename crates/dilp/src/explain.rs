//! The listing of a composition: each instruction with the pipe that it serves.

use crate::role::Role;
use crate::transfer::Transfer;
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};
use std::fmt::Write as _;

/// One instruction of a composition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its distance from the function's start.
    pub offset: u32,
    /// Its purpose.
    pub role: Role,
    /// Its text, in the syntax of the GNU assembler.
    pub text: String,
}

impl Transfer {
    /// Returns the purpose of the instruction at an offset.
    pub fn role_at(&self, offset: u32) -> Role {
        let after = self.roles.partition_point(|(start, _)| *start <= offset);
        self.roles.get(after.wrapping_sub(1)).map_or(Role::Entry, |(_, role)| *role)
    }

    /// Returns all instructions.
    pub fn lines(&self) -> Vec<Line> {
        let mut formatter = GasFormatter::new();
        let decoder = Decoder::new(64, &self.code, DecoderOptions::NONE);
        let line = |instruction: iced_x86::Instruction| {
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            let offset = instruction.ip() as u32;
            Line { offset, role: self.role_at(offset), text }
        };
        decoder.into_iter().map(line).collect()
    }

    /// Returns what a role is called in the listing: `pipe 1 swap32`, for example.
    pub fn role_name(&self, role: Role) -> String {
        let pipe = |number: u8| format!("{number} {}", self.names.get(usize::from(number)).map_or("", |name| name));
        match role {
            Role::Entry => "entry".to_owned(),
            Role::Load => "load".to_owned(),
            Role::Convert(number) => format!("gauge of {}", pipe(number)),
            Role::Pipe(number) => format!("pipe {}", pipe(number)),
            Role::Store => "store".to_owned(),
            Role::Loop => "loop".to_owned(),
            Role::Stream => "key stream".to_owned(),
            Role::Exit => "exit".to_owned(),
        }
    }

    /// Returns the listing: offset, purpose and text of each instruction, one a line.
    pub fn listing(&self) -> String {
        let mut out = String::new();
        let mut last = None;
        for Line { offset, role, text } in self.lines() {
            let name = if last == Some(role) { String::new() } else { self.role_name(role) };
            last = Some(role);
            let _ = writeln!(out, "{offset:6x}  {name:<24}{text}");
        }
        out
    }
}
