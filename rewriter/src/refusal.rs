//! Why an object cannot be rewritten: a closed list of reasons, each with a stable code.

use std::fmt;

macro_rules! reasons {
    ($( $name:ident = $id:literal, $title:literal, $help:literal; )*) => {
        /// The reason of a refusal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason { $( #[doc = $title] $name, )* }

        impl Reason {
            /// All reasons.
            pub const ALL: &[Reason] = &[ $( Reason::$name, )* ];

            /// Stable code, for example `SFI-W03`.
            pub const fn id(self) -> &'static str { match self { $( Reason::$name => $id, )* } }

            /// What is in the way.
            pub const fn title(self) -> &'static str { match self { $( Reason::$name => $title, )* } }

            /// What to do about it.
            pub const fn help(self) -> &'static str { match self { $( Reason::$name => $help, )* } }
        }
    };
}

reasons! {
    NotRelocatable = "SFI-W01", "not a well-formed ELF64 x86-64 relocatable object",
        "give objects as a compiler or assembler writes them (ET_REL), not executables, shared objects or LTO bytecode";
    DataInText = "SFI-W02", "data lies between instructions",
        "move tables of hand-written assembly into .rodata";
    NoSafeForm = "SFI-W03", "instruction has no safe form",
        "build the object without it: usually a hand-written assembly variant that can be configured out";
    StackPointerUse = "SFI-W04", "stack pointer is used in a way that the data stack cannot imitate",
        "use the portable C version of the function";
    ReturnAddress = "SFI-W05", "function reads or replaces its return address",
        "the return address lies on the control stack, out of reach; setjmp and the like come from the support code";
    IndirectJump = "SFI-W06", "indirect jump leaves no register or flags to sandbox it with",
        "compile with -fno-jump-tables, or report the object";
    Relocation = "SFI-W07", "relocation cannot be kept",
        "compile with -fPIC or -fPIE";
    CodeAddress = "SFI-W08", "code address is computed in a way that is not recognised",
        "compile with -fno-jump-tables, or avoid differences of code labels";
    ExceptionTables = "SFI-W09", "exception tables are not understood",
        "compile with gcc or clang and their usual tables, or with -fno-exceptions";
    IndirectFunction = "SFI-W10", "symbol is an IFUNC",
        "configure the library without run-time dispatch of this kind";
    ThreadLocal = "SFI-W11", "thread-local access sequence is not recognised",
        "compile with -ftls-model=initial-exec or local-exec";
    BranchTarget = "SFI-W12", "branch or symbol leads into the middle of an instruction",
        "use the portable C version of the function";
    AbsoluteSymbol = "SFI-W13", "symbol is absolute and visible to other objects",
        "an absolute symbol names no place of a domain; leave the member out";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// One thing that keeps an object from being rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason from the closed list.
    pub reason: Reason,
    /// Section's name; empty if the object as a whole is meant.
    pub section: String,
    /// Offset in the section, in bytes.
    pub offset: u64,
    /// Function that contains the offset, if a symbol says so.
    pub function: Option<String>,
    /// The instruction as text (AT&T syntax), if one is meant.
    pub instruction: Option<String>,
    /// What exactly was found.
    pub detail: String,
}

impl Refusal {
    /// A refusal that means the object as a whole.
    pub(crate) fn of_object(reason: Reason) -> Refusal {
        Refusal { reason, section: String::new(), offset: 0, function: None, instruction: None, detail: String::new() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.id(), self.reason.title())?;
        if !self.section.is_empty() {
            write!(f, " at {}+{:#x}", self.section, self.offset)?;
        }
        if let Some(function) = &self.function {
            write!(f, " in `{function}`")?;
        }
        if let Some(instruction) = &self.instruction {
            write!(f, ": `{instruction}`")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_are_unique() {
        let ids: HashSet<_> = Reason::ALL.iter().map(|r| r.id()).collect();
        assert_eq!(ids.len(), Reason::ALL.len());
    }
}
