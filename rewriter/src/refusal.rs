//! The reasons why an object cannot be rewritten: a closed list, each with a stable code.

use std::fmt;

macro_rules! reasons {
    ($( $name:ident = $id:literal, $title:literal, $why:literal, $example:literal, $help:literal; )*) => {
        /// The reason of a refusal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason { $( #[doc = $title] $name, )* }

        impl Reason {
            /// All reasons.
            pub const ALL: &[Reason] = &[ $( Reason::$name, )* ];

            /// Returns the stable code, for example `SFI-W03`.
            pub const fn id(self) -> &'static str { match self { $( Reason::$name => $id, )* } }

            /// Returns the obstacle in a few words.
            pub const fn title(self) -> &'static str { match self { $( Reason::$name => $title, )* } }

            /// Explains why the rewriter refuses it.
            pub const fn why(self) -> &'static str { match self { $( Reason::$name => $why, )* } }

            /// Returns code, or a command, that is refused for this reason.
            pub const fn example(self) -> &'static str { match self { $( Reason::$name => $example, )* } }

            /// Returns advice for the user.
            pub const fn help(self) -> &'static str { match self { $( Reason::$name => $help, )* } }
        }
    };
}

reasons! {
    NotRelocatable = "SFI-W01", "not a well-formed ELF64 x86-64 relocatable object",
        "Only relocatable objects still say which numbers are addresses.",
        "gcc -shared -o f.so f.c           # linked already",
        "give objects as a compiler or assembler writes them (ET_REL), not executables or shared objects";
    DataInText = "SFI-W02", "data lies between instructions",
        "All text is decoded and written anew. Bytes that may be data or code cannot be treated as both.",
        "        lea 1f(%rip),%rax\n        ret\n1:      .byte 6                           # in .text, and nothing in sight reads it",
        "move tables of hand-written assembly into .rodata";
    NoSafeForm = "SFI-W03", "instruction has no safe form",
        "It reaches memory past its operands, changes the machine's state, or its operands cannot be expressed in a domain.",
        "wrpkru                            # protection keys\nfxsave (%rdi)                     # not on the positive list",
        "build the object without it: usually a hand-written assembly variant that can be configured out";
    StackPointerUse = "SFI-W04", "stack pointer is used in a way that the data stack cannot imitate",
        "The data stack has another register as its pointer. Instructions that use rsp implicitly or at 32 bits have no counterpart.",
        "push %fs\nmov %rsp,(%rdi)\nmov (%rsi),%rsp\nret                               # to another chain of calls, as coroutines do",
        "use the portable C version of the function";
    ReturnAddress = "SFI-W05", "function reads or replaces its return address",
        "Return addresses lie on the control stack, which no instruction of a domain can name. A function may read its own one.",
        "f:      pop %rax                          # its return address\n        jmp *%rax",
        "the return address lies on the control stack, out of reach; setjmp and the like come from the support code";
    IndirectJump = "SFI-W06", "indirect jump leaves no register or flags to sandbox it with",
        "The jump may leave the function or stay in it, and the two want different stack pointers.",
        "jmp *%rax                         # the targets: a function, and a label with something on the stack",
        "compile with -fno-jump-tables, or report the object";
    Relocation = "SFI-W07", "relocation cannot be kept",
        "The meaning of the field changes when code moves, or a domain cannot have it.",
        "movzbl table-.(%r8,%r9),%eax      # relative to the instruction's own place",
        "compile with -fPIC or -fPIE";
    CodeAddress = "SFI-W08", "code address is computed in a way that is not recognised",
        "Code addresses become dispatch slots. A sum that the rewriter cannot analyse would lead nowhere.",
        "lea 1f(%rip),%rcx\nlea (%rcx,%rax,8),%rax\nadd %rcx,%rax\njmp *%rax                         # into the middle of a run of instructions",
        "compile with -fno-jump-tables, or avoid differences of code labels";
    ExceptionTables = "SFI-W09", "exception tables are not understood",
        "They hold distances between places of the old code and are made anew. The rewriter must read them first.",
        ".gcc_except_table with an encoding that no compiler writes",
        "compile with gcc or clang and their usual tables, or with -fno-exceptions";
    IndirectFunction = "SFI-W10", "IFUNC whose resolver is no function, or a branch past its entry",
        "The target of an IFUNC is known only after its resolver has run, and only as a whole function.",
        "call memcpy + 4                   # memcpy is an IFUNC",
        "configure the library without run-time dispatch of this kind";
    ThreadLocal = "SFI-W11", "thread-local access sequence is not recognised",
        "Every model becomes local-exec, which needs the whole sequence as the psABI writes it.",
        "lea x@tlsgd(%rip),%rdi\nnop\ncall __tls_get_addr@PLT            # something between them",
        "compile with -ftls-model=initial-exec or local-exec";
    BranchTarget = "SFI-W12", "branch or symbol leads into the middle of an instruction",
        "Two readings of the same bytes cannot both be sandboxed.",
        "jmp .+3",
        "use the portable C version of the function";
    IntermediateCode = "SFI-W13", "object holds intermediate code (LTO) and no machine code",
        "There is no text to rewrite: a linker would compile it later. Of an object that has both, the intermediate code is dropped.",
        "gcc -flto -c f.c",
        "compile with -fno-lto, or with -ffat-lto-objects to get both";
    Rewritten = "SFI-W14", "object was rewritten before",
        "Its text already has the contract's form, and its r15 is the data stack's pointer.",
        "sfi rewrite f.o -o g.o && sfi rewrite g.o",
        "link it as it is; for another mode, rewrite the compiler's object with --mode";
    LargeModel = "SFI-W15", "code for the large code model",
        "Distances of 64 bits from the code, or from a GOT, have no meaning in a window, where all distances fit into 32 bits.",
        "gcc -mcmodel=large -c f.c",
        "compile with -mcmodel=small or -mcmodel=medium: a domain's text and constants are never farther apart";
    ExecutableStack = "SFI-W16", "object wants an executable stack",
        "A nested function whose address is taken is called through code that its function writes to the stack. Domains write no code.",
        "int f(int k) { int g(int x) { return x + k; } return apply(g, 1); }    // GNU C\n.section .note.GNU-stack,\"x\"                                          # the mark of such objects",
        "pass the variables as an argument of an ordinary function; assemble objects without nested functions with --noexecstack";
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
    /// Name of the section. Empty if the refusal is about the whole object.
    pub section: String,
    /// Offset in the section, in bytes.
    pub offset: u64,
    /// Function that contains the offset, if a symbol names it.
    pub function: Option<String>,
    /// The instruction as text (AT&T syntax), if the refusal is about one.
    pub instruction: Option<String>,
    /// Details of the finding.
    pub detail: String,
}

impl Refusal {
    /// Makes a refusal of the whole object.
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
    use foldhash::HashSet;

    #[test]
    fn codes_are_unique() {
        let ids: HashSet<_> = Reason::ALL.iter().map(|r| r.id()).collect();
        assert_eq!(ids.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            assert!(![reason.title(), reason.why(), reason.example(), reason.help()].contains(&""), "{reason}");
        }
    }
}
