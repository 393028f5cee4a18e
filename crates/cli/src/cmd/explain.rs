//! `sfi explain`

use crate::gate::Code;
use crate::render::{self, Explanation};
use sfi_contract::Rule;
use sfi_rewriter::Reason;
use std::io::Write;
use std::process::ExitCode;

/// Explain the rules of the sandbox contract and of policies, and the reasons for refusals.
///
/// Prints a rule or a reason of `sfi rewrite`: its meaning, its cause, an example that breaks it,
/// and advice. Without a code, lists all.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi explain            lists all rules and reasons
  sfi explain SFI-S01
  sfi explain s01        the prefix and the case may be left out

Exit codes:
  0  explained
  2  there is no such rule")]
pub struct Args {
    /// Codes, as `sfi verify` and `sfi rewrite` print them.
    #[arg(value_name = "CODE")]
    codes: Vec<String>,
}

/// A code that `sfi explain` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    /// A rule of the verifier or of a policy.
    Rule(Code),
    /// A reason for which the rewriter refuses code.
    Refusal(Reason),
}

impl Topic {
    fn all() -> impl Iterator<Item = Topic> {
        Code::all().map(Topic::Rule).chain(Reason::ALL.iter().map(|reason| Topic::Refusal(*reason)))
    }

    fn id(self) -> &'static str {
        match self {
            Topic::Rule(code) => code.id(),
            Topic::Refusal(reason) => reason.id(),
        }
    }

    fn explanation(self) -> Explanation {
        match self {
            Topic::Rule(code) => Explanation {
                id: code.id(),
                title: code.title(),
                why: code.why(),
                example: example(code),
                help: code.help(),
            },
            Topic::Refusal(reason) => Explanation {
                id: reason.id(),
                title: reason.title(),
                why: reason.why(),
                example: reason.example(),
                help: reason.help(),
            },
        }
    }
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let topics = args.codes.iter().map(|code| parse(code)).collect::<anyhow::Result<Vec<Topic>>>()?;
    let mut out = anstream::stdout().lock();
    if topics.is_empty() {
        for topic in Topic::all() {
            writeln!(out, "{}  {}", topic.id(), topic.explanation().title)?;
        }
    }
    for (i, topic) in topics.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        render::explanation(&mut out, &topic.explanation())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn parse(code: &str) -> anyhow::Result<Topic> {
    let upper = code.to_ascii_uppercase();
    let full = if upper.starts_with("SFI-") { upper } else { format!("SFI-{upper}") };
    let found = Topic::all().find(|topic| topic.id() == full);
    found.ok_or_else(|| anyhow::anyhow!("there is no rule `{code}`; `sfi explain` lists all"))
}

fn example(code: Code) -> &'static str {
    match code {
        Code::Contract(rule) => contract_example(rule),
        Code::Policy(rule) => rule.example(),
    }
}

/// Returns code that breaks the rule.
const fn contract_example(rule: Rule) -> &'static str {
    match rule {
        Rule::SectionBounds => "a section header whose sh_offset + sh_size lies after the end of the file",
        Rule::ExecutableData => ".section .code,\"awx\",@progbits    # writable and executable",
        Rule::SymbolTarget => {
            "f:      mov $0x050f,%eax\n.set g, f + 1                    # inside the mov, at a hidden syscall"
        }
        Rule::SymbolKind => ".data\n.type f,@gnu_indirect_function     # no code can be there\nf:      .quad 0",
        Rule::RelocationTable => "two SHT_RELA sections whose sh_info names the same section",
        Rule::GroupTable => "a SHT_GROUP section that lists a section twice",
        Rule::SectionKind => "an allocated section of type SHT_DYNAMIC, or with an alignment of 3",
        Rule::IntermediateCode => ".section .gnu.lto_.decls,\"e\"         # gcc -flto",
        Rule::SlotArray => {
            ".section .sfi.slots,\"aw\",@progbits  # writable\n        .quad 42                  # and no place in text"
        }
        Rule::Undecodable => ".byte 0x06                        # no instruction in 64-bit mode",
        Rule::NotAllowed => "ud1 %eax,%eax                     # not on the positive list",
        Rule::Prefix => "data16 call f                     # Intel ignores the 66, AMD does not",
        Rule::System => "syscall",
        Rule::SecondReading => ".byte 0x41,0xdf,0xe0              # fnstsw %ax, or %r8w?",
        Rule::StoreSegment => "mov %rax,(%rdi)                   # safe: mov %rax,%gs:(%edi)",
        Rule::StoreAddressSize => "mov %rax,%gs:(%rdi)               # safe: mov %rax,%gs:(%edi)",
        Rule::StoreMoving => "bts %ecx,%gs:(%edi)               # writes at edi + ecx / 8",
        Rule::StringMask => {
            "rep stosq                         # safe:\n                                  #   mov %edi,%edi\n                                  #   add %gs:__sfi_header,%rdi\n                                  #   rep stosq"
        }
        Rule::LoadUnconfined => "mov (%rdi),%rax                   # in mode full: mov %gs:(%edi),%rax",
        Rule::LoadBased => {
            "mov (%rdx,%rcx),%rax              # in mode full:\n                                  #   mov %gs:__sfi_header,%rdx\n                                  #   mov %ecx,%ecx\n                                  #   mov (%rdx,%rcx),%rax"
        }
        Rule::SilentAccess => {
            "vmovdqu8 (%rdi),%zmm0{%k1}        # safe: vmovdqu8 %gs:(%edi),%zmm0{%k1}\nprefetcht0 (%rdi)                 # safe without it"
        }
        Rule::StackPointer => "sub $8,%rsp                       # the data stack is r15: lea -8(%r15),%r15",
        Rule::StackImplicit => "push $1",
        Rule::StackDepth => "push %rbx ; ret",
        Rule::BranchTarget => "jmp .+3                           # into the middle of the next instruction",
        Rule::BranchIntoRegion => {
            "        mov %edi,%edi\n        add %gs:__sfi_header,%rdi\n1:      stosb\n        jmp 1b                    # skips the mask"
        }
        Rule::BranchRelocation => "call f + 1                        # R_X86_64_PLT32 f - 3",
        Rule::IndirectBranch => {
            "call *%rax                        # safe:\n                                  #   and $0xffff8,%eax\n                                  #   call *%gs:__sfi_dispatch(%eax)"
        }
        Rule::FsNamed => "mov %fs:0x28,%rax                 # safe: mov %gs:__sfi_tcb+0x28,%rax",
        Rule::SegmentState => "wrgsbase %rax",
        Rule::RelocationField => "a relocation whose offset lies on an opcode",
        Rule::RelocationType => ".reloc ., R_X86_64_8, f           # one byte, no field of an instruction",
        Rule::RelocationGuard => "and $mask,%eax                    # a relocated mask of an indirect branch",
        Rule::FinalTarget => "call f                            # where the loader has put f between two boundaries",
        Rule::FinalSlot => "a dispatch slot with the address of an instruction's second byte",
        Rule::FinalLoad => "mov x(%rip),%rax                  # where x lies outside the window",
        Rule::FinalStore => "mov %rax,x(%rip)                  # where x lies outside the window",
        Rule::BudgetRegister => "add $1000,%r14                    # in a budgeted text: a larger budget",
        Rule::Uncharged => "1:      inc %eax\n        jmp 1b                    # safe: 1: sub $4,%r14 ; jb TRAP",
        Rule::ChargeAmount => {
            "1:      sub $1,%r14\n        jb 9f\n        inc %eax\n        jmp 1b                    # these are 4 instructions\n9:      int3"
        }
        Rule::RepeatUncharged => "repne scasb                       # safe: sub %rcx,%r14 ; jb TRAP ; repne scasb",
        Rule::Unmatched => "mov %rax,%gs:(%edi)               # in mode match: after the check of %rdi",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_may_be_short() {
        for topic in Topic::all() {
            assert_eq!(parse(topic.id()).unwrap(), topic);
            assert_eq!(parse(&topic.id().to_lowercase()[4..]).unwrap(), topic);
            assert!(!topic.explanation().example.is_empty());
        }
        assert!(parse("SFI-Z01").is_err());
        assert!(parse("").is_err());
    }
}
