//! The rules of the contract by name. The verifier checks each rule in one function, and `sfi
//! explain` prints its texts.

use std::fmt;
use std::str::FromStr;

macro_rules! rules {
    ($( $name:ident = $id:literal, $title:literal, $why:literal, $help:literal; )*) => {
        /// A rule that an object can break.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule { $( #[doc = $title] $name, )* }

        impl Rule {
            /// All rules, in the order of the contract.
            pub const ALL: &[Rule] = &[ $( Rule::$name, )* ];

            /// Returns the stable code, for example `SFI-S01`.
            pub const fn id(self) -> &'static str { match self { $( Rule::$name => $id, )* } }

            /// Returns the finding in one line.
            pub const fn title(self) -> &'static str { match self { $( Rule::$name => $title, )* } }

            /// Returns the reason for the rule, and its source.
            pub const fn why(self) -> &'static str { match self { $( Rule::$name => $why, )* } }

            /// Returns advice for the object's author.
            pub const fn help(self) -> &'static str { match self { $( Rule::$name => $help, )* } }
        }
    };
}

rules! {
    SectionBounds = "SFI-E01", "section lies outside the file or overlaps another section",
        "The checked bytes must be the loaded bytes; two sections over the same bytes invite two readings (ELF-64 chapter Sections).",
        "the object is damaged or forged; rebuild it";
    ExecutableData = "SFI-E02", "executable section is writable, not PROGBITS, compressed or not allocated",
        "Text is never writable while it is executable (W^X); only decoded PROGBITS bytes become text.",
        "put data into a data section; rewrite the object again";
    SymbolTarget = "SFI-E03", "symbol in text is not at an instruction boundary that may be a branch target",
        "Every symbol in text is a possible target of calls and dispatch slots of this and other objects.",
        "rewrite the object with `sfi rewrite`";
    SymbolKind = "SFI-E04", "symbol has a type, section index or value that the loader does not accept",
        "The loader gives a meaning to these kinds of symbols only; an IFUNC needs a resolver in text.",
        "rewrite the object with `sfi rewrite`";
    RelocationTable = "SFI-E05", "relocation section is malformed, duplicated or overlaps",
        "Two relocations over one field make the final bytes depend on their order.",
        "the object is damaged or forged; rebuild it";
    GroupTable = "SFI-E06", "section group is malformed, cyclic or names a member twice",
        "COMDAT decides which sections are loaded; that must be decidable from each object alone.",
        "the object is damaged or forged; rebuild it";
    SectionKind = "SFI-E07", "allocated section of a type, with flags, an alignment or an address that the loader does not accept",
        "The loader handles a section by the types that it knows, never by a guess.",
        "rewrite the object with `sfi rewrite`";
    IntermediateCode = "SFI-E08", "object holds intermediate code (LTO)",
        "A linker with a plugin compiles it and drops the text that was checked.",
        "rewrite the object with `sfi rewrite`, which drops it; without machine code compile with -fno-lto or -ffat-lto-objects";
    SlotArray = "SFI-E09", "array of dispatch slots is malformed, or something else than a displacement names it",
        "The loader puts its words into the dispatch table, where nothing but a place in text may be; it lies nowhere else, so nothing else can name it.",
        "rewrite the object with `sfi rewrite`";
    Undecodable = "SFI-D01", "bytes of an executable section do not decode",
        "Every byte of text, from the section's start, belongs to one decoded instruction: no gap where code could hide.",
        "move data out of text; rewrite the object with `sfi rewrite`";
    NotAllowed = "SFI-D02", "instruction is not on the positive list",
        "Only reviewed instructions are allowed; an unknown one is refused, not tolerated.",
        "see docs/CONTRACT.md for the list; avoid the instruction or ask for its review";
    Prefix = "SFI-D03", "duplicate, redundant, reordered or meaningless prefix",
        "Decoders and vendors read odd prefixes differently (66 on near branches: Intel ignores it, AMD does not).",
        "rewrite the object with `sfi rewrite`, which emits canonical prefixes only";
    System = "SFI-D04", "system call, privileged or machine-state instruction",
        "The kernel and the machine's state are the host's alone; a domain asks the arbitration code.",
        "rewrite the object: `syscall` becomes a call to the arbitration gateway";
    SecondReading = "SFI-D05", "a second decoder reads the instruction differently, or does not know it",
        "All rules stand on what a decoder says; one mistake in its tables must not be an escape, so two by different authors must agree.",
        "rewrite the object with `sfi rewrite`; if it stays, report it: one of the two decoders is wrong";
    StoreSegment = "SFI-S01", "store without the GS override",
        "The effective address of a store is GS.base + zext32(..): inside the window whatever the registers hold. A rip-relative store names no register, and the loader chooses its target by a relocation.",
        "rewrite the object with `sfi rewrite`";
    StoreAddressSize = "SFI-S02", "store with 64-bit address size",
        "Without the 32-bit address size the registers decide the upper half of the address.",
        "rewrite the object with `sfi rewrite`";
    StoreMoving = "SFI-S03", "memory operand that moves on its own",
        "Bit tests with a register offset, maskmov, scatters and direct stores reach memory beyond their operand.",
        "avoid the instruction; rewrite the object with `sfi rewrite`, which knows replacements for some";
    StringMask = "SFI-S04", "string instruction outside its unsafe region",
        "String instructions take no segment override for %rdi; the pointer is truncated and rebased right before.",
        "rewrite the object with `sfi rewrite`";
    LoadUnconfined = "SFI-L01", "load outside the window is possible (mode full)",
        "In mode full a load is like a store, or rip-relative with a relocation whose target is inside the domain, or by the window's base in a register (SFI-L03).",
        "rewrite with `--mode full`, or run the domain in mode write";
    SilentAccess = "SFI-L02", "access that may fail in silence is not confined",
        "A load that a mask may leave out, and a hint, tell by their time whether a page is mapped, and never fault: a search without a trace.",
        "rewrite the object with `sfi rewrite`, which confines such loads and drops such hints";
    LoadBased = "SFI-L03", "load by the window's base lacks the base or its number, or is too far (mode full)",
        "A load of the window's base plus a number of 32 bits plus at most 0x7fff bytes ends in the guard at most. The three instructions stand next to each other, and nothing may branch between them.",
        "rewrite with `--mode full`, or run the domain in mode write";
    StackPointer = "SFI-C01", "instruction names the control stack pointer rsp",
        "rsp is the control stack, outside every window; only call, ret, and push and pop of saved registers touch it, so returns need no check when they run.",
        "rewrite the object with `sfi rewrite`, which moves the data stack to r15";
    StackImplicit = "SFI-C02", "leave, enter, ret imm16, a push of no register or another implicit use of the control stack",
        "As SFI-C01: nothing but return addresses and saved registers may ever lie on the control stack.",
        "rewrite the object with `sfi rewrite`";
    StackDepth = "SFI-C03", "saved registers are not removed from the control stack, or others than the function saved",
        "A return takes the word at rsp. It is a return address only if the function has popped all that it pushed; so each place has one number of saved words, and it is 0 where functions begin, return or are left by other ways than calls.",
        "rewrite the object with `sfi rewrite`";
    BranchTarget = "SFI-B01", "direct branch to a place that is not an instruction boundary of its section",
        "A jump into the middle of an instruction executes bytes that were never checked.",
        "rewrite the object with `sfi rewrite`";
    BranchIntoRegion = "SFI-B02", "direct branch into an unsafe region",
        "The mask and the instruction it guards are one unit; entering after the mask skips it.",
        "rewrite the object with `sfi rewrite`";
    BranchRelocation = "SFI-B03", "relocated branch that is not R_X86_64_PLT32 with addend -4 to a symbol in text",
        "Another addend lands beside the symbol; another type does not say that a branch is meant.",
        "rewrite the object with `sfi rewrite`";
    BudgetRegister = "SFI-B04", "instruction names r14, which holds the budget (budgeted text)",
        "What is left of the budget only charges may lower, and nothing may raise.",
        "rewrite the object with `sfi rewrite --budget`, which frees r14";
    Uncharged = "SFI-B05", "branch or dispatch slot leads to a place where no charge stands (budgeted text)",
        "A loop, a recursion and an indirect branch come back to a place; if each such place is a charge, none of them is endless (Wallach et al., bounding execution time).",
        "rewrite the object with `sfi rewrite --budget`";
    ChargeAmount = "SFI-B06", "charge takes less than the instructions that follow it (budgeted text)",
        "Each charge pays for all instructions up to the next one, so the domain never runs more of them than its budget.",
        "rewrite the object with `sfi rewrite --budget`";
    RepeatUncharged = "SFI-B07", "string instruction with rep without a charge of its count (budgeted text)",
        "One such instruction can run for 2^64 repetitions; it pays for rcx of them right before.",
        "rewrite the object with `sfi rewrite --budget`";
    IndirectBranch = "SFI-I01", "indirect branch outside its unsafe region",
        "An indirect branch goes through the dispatch table, whose slots hold verified targets only.",
        "rewrite the object with `sfi rewrite`";
    Unmatched = "SFI-M01", "store or indirect branch without its check (mode match)",
        "Mode match promises that the offending instruction itself is named; one without a check would go wrong in silence.",
        "rewrite the object with `sfi rewrite --mode match`";
    FsNamed = "SFI-F01", "instruction uses the FS segment",
        "FS belongs to the host; thread locals of a domain lie at a fixed place of its window.",
        "rewrite the object with `sfi rewrite`";
    SegmentState = "SFI-F02", "segment register or segment base read or written",
        "GS base is the sandbox; FS base is an address of the host.",
        "remove the instruction";
    RelocationField = "SFI-R01", "relocation patches something other than a displacement or an immediate",
        "The opcode, prefixes, ModRM and SIB that were checked must be the ones that run.",
        "rewrite the object with `sfi rewrite`";
    RelocationType = "SFI-R02", "relocation of a type that may not patch text",
        "The loader knows what the listed types write, how wide, and where.",
        "compile with -fPIC or -fPIE; rewrite the object with `sfi rewrite`";
    RelocationGuard = "SFI-R03", "relocation patches a field that safety depends on",
        "The mask, the dispatch displacement and the header displacement are constants of the contract.",
        "rewrite the object with `sfi rewrite`";
    FinalTarget = "SFI-T01", "branch in the final text does not reach a boundary or a gateway's entry",
        "Checked again over the relocated bytes that will really run, so that a mistake of the linker is not an escape.",
        "report it: this is a defect of the loader";
    FinalSlot = "SFI-T02", "dispatch slot does not hold a legal indirect target",
        "As SFI-T01, for the dispatch table.",
        "report it: this is a defect of the loader";
    FinalLoad = "SFI-T03", "rip-relative load in the final text leaves the window (mode full)",
        "As SFI-L01, over the final text.",
        "report it: this is a defect of the loader";
    FinalStore = "SFI-T04", "rip-relative store in the final text leaves the window",
        "A store relative to rip has no GS override, so the place that it writes is computed from the bytes that will run.",
        "the source adds a number to a symbol that leads out of the domain; otherwise report it: this is a defect of the loader";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// The text is not the id of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown rule `{0}`")]
pub struct UnknownRule(String);

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Rule::ALL
            .iter()
            .copied()
            .find(|r| r.id().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownRule(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_unique_and_round_trip() {
        let ids: HashSet<_> = Rule::ALL.iter().map(|r| r.id()).collect();
        assert_eq!(ids.len(), Rule::ALL.len());
        for rule in Rule::ALL {
            assert_eq!(rule.id().to_lowercase().parse(), Ok(*rule));
        }
        assert!("SFI-Z99".parse::<Rule>().is_err());
    }
}
