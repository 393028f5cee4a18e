//! The rules of policies. Their codes are as stable as those of the contract and continue them:
//! `SFI-P..`.

/// A rule that a policy file can switch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyRule {
    /// `modes`
    Mode,
    /// no `instructions.rdtsc = true`
    Clock,
    /// `instructions.cpuid = false`
    Identity,
    /// `imports.allow`
    Import,
    /// `limits.text`
    TextSize,
    /// `limits.data`
    DataSize,
    /// `limits.object`
    ObjectSize,
}

impl PolicyRule {
    /// All rules.
    pub const ALL: &[PolicyRule] = &[
        PolicyRule::Mode,
        PolicyRule::Clock,
        PolicyRule::Identity,
        PolicyRule::Import,
        PolicyRule::TextSize,
        PolicyRule::DataSize,
        PolicyRule::ObjectSize,
    ];

    /// Returns the stable code.
    pub const fn id(self) -> &'static str {
        match self {
            PolicyRule::Mode => "SFI-P01",
            PolicyRule::Clock => "SFI-P02",
            PolicyRule::Identity => "SFI-P03",
            PolicyRule::Import => "SFI-P04",
            PolicyRule::TextSize => "SFI-P05",
            PolicyRule::DataSize => "SFI-P06",
            PolicyRule::ObjectSize => "SFI-P07",
        }
    }

    /// Returns one line about the violation.
    pub const fn title(self) -> &'static str {
        match self {
            PolicyRule::Mode => "checked in a mode that the policy does not accept",
            PolicyRule::Clock => "`rdtsc`, which the policy forbids",
            PolicyRule::Identity => "`cpuid`, which the policy forbids",
            PolicyRule::Import => "import that the policy does not allow",
            PolicyRule::TextSize => "more text than the policy allows",
            PolicyRule::DataSize => "more data than the policy allows",
            PolicyRule::ObjectSize => "object larger than the policy allows",
        }
    }

    /// Returns the reason for such a rule.
    pub const fn why(self) -> &'static str {
        match self {
            PolicyRule::Mode => {
                "In mode write loads are not confined; a host with secrets in its memory may want mode full."
            }
            PolicyRule::Clock => "Timing side channels are read with a precise clock.",
            PolicyRule::Identity => "`cpuid` tells the machine's model, and which of several machines this is.",
            PolicyRule::Import => {
                "Imports are all that an object can ask of its host. It cannot reach a function that it does not name."
            }
            PolicyRule::TextSize => "Text is locked address space and time for the verifier at each load.",
            PolicyRule::DataSize => "Data, zeroed data included, is memory of the host before the first call.",
            PolicyRule::ObjectSize => "The limit bounds the bytes that are read, hashed and kept.",
        }
    }

    /// Returns advice.
    pub const fn help(self) -> &'static str {
        match self {
            PolicyRule::Mode => "verify with a mode of the policy's `modes`, and rewrite the object for it",
            PolicyRule::Clock => {
                "take time from an import of the host, or set `instructions.rdtsc = true` in the policy"
            }
            PolicyRule::Identity => "choose code paths at build time, or set `instructions.cpuid = true` in the policy",
            PolicyRule::Import => {
                "define the symbol, give the object that does, or list it in `imports.allow` of the policy"
            }
            PolicyRule::TextSize => "compile with -Os, drop unused code, or raise `limits.text` in the policy",
            PolicyRule::DataSize => "take memory from the heap at run time, or raise `limits.data` in the policy",
            PolicyRule::ObjectSize => "strip debug information, or raise `limits.object` in the policy",
        }
    }

    /// Returns an example that breaks the rule.
    pub const fn example(self) -> &'static str {
        match self {
            PolicyRule::Mode => "modes = [\"full\"]                  # and: sfi verify --mode write",
            PolicyRule::Clock => "rdtsc                             # without instructions.rdtsc = true",
            PolicyRule::Identity => "cpuid                             # with instructions.cpuid = false",
            PolicyRule::Import => "call system                       # with imports.allow = [\"host_*\"]",
            PolicyRule::TextSize => "two megabytes of functions        # with limits.text = 1048576",
            PolicyRule::DataSize => ".comm buffer,1 << 30              # with limits.data = 1048576",
            PolicyRule::ObjectSize => "an object of 50 MB                # with limits.object = 1048576",
        }
    }
}
