//! Rules about words of the machine language that need no context: prefixes, and instructions that
//! no domain may use.

use iced_x86::Mnemonic;

/// Legacy prefixes.
#[derive(Default)]
pub(super) struct Prefixes {
    pub gs: bool,
    pub address_size: bool,
    pub operand_size: bool,
}

/// Reads the prefixes, and refuses those that no assembler writes.
pub(super) fn prefixes(bytes: &[u8]) -> Result<Prefixes, String> {
    let mut found = Prefixes::default();
    let mut seen = [0u8; 256];
    for byte in bytes {
        match byte {
            0x65 => found.gs = true,
            0x67 => found.address_size = true,
            0x66 => found.operand_size = true,
            0xf0 | 0xf2 | 0xf3 => {}
            0x64 | 0x26 | 0x2e | 0x36 | 0x3e => return Err(format!("prefix {byte:02x}")),
            _ => break,
        }
        seen[usize::from(*byte)] += 1;
        if seen[usize::from(*byte)] > 1 {
            return Err(format!("prefix {byte:02x} twice"));
        }
    }
    if seen[0xf0] + seen[0xf2] + seen[0xf3] > 1 {
        return Err("two of f0, f2, f3".into());
    }
    let rest = &bytes[seen.iter().map(|n| usize::from(*n)).sum::<usize>()..];
    if let [0x40..=0x4f, next, ..] = rest
        && matches!(next, 0x40..=0x4f | 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3)
    {
        return Err("a prefix after REX".into());
    }
    Ok(found)
}

/// Says whether no domain may run the instruction, beyond those that iced calls privileged or
/// state-saving. Hints about memory are among them: they reach any address, and their timing
/// reveals whether it is mapped.
pub(super) fn forbidden(mnemonic: Mnemonic) -> bool {
    const EXACTLY: [&str; 21] = [
        "in",
        "insb",
        "insw",
        "insd",
        "int",
        "int1",
        "invd",
        "invlpg",
        "vmcall",
        "vmfunc",
        "vmgexit",
        "vmmcall",
        "vmrun",
        "vmload",
        "vmsave",
        "vmread",
        "vmwrite",
        "vmaskmovdqu",
        "std",
        "cli",
        "sti",
    ];
    const BEGINS: [&str; 62] = [
        "out",
        "sys",
        "iret",
        "popf",
        "pushf",
        "rdfs",
        "wrfs",
        "rdgs",
        "wrgs",
        "swapgs",
        "xsave",
        "xrstor",
        "fxsave",
        "fxrstor",
        "rdpkru",
        "wrpkru",
        "monitor",
        "mwait",
        "umonitor",
        "umwait",
        "tpause",
        "clzero",
        "movdir",
        "enqcmd",
        "tile",
        "ldtile",
        "sttile",
        "maskmov",
        "xbegin",
        "xabort",
        "xend",
        "xtest",
        "rdssp",
        "incssp",
        "wrss",
        "wruss",
        "saveprevssp",
        "rstorssp",
        "setssbsy",
        "clrssbsy",
        "encl",
        "skinit",
        "bnd",
        "lwp",
        "llwp",
        "slwp",
        "xstore",
        "xcrypt",
        "xsha",
        "sgdt",
        "sidt",
        "sldt",
        "smsw",
        "ptwrite",
        "senduipi",
        "uiret",
        "vpscatter",
        "vscatter",
        "prefetch",
        "cldemote",
        "clflush",
        "clwb",
    ];
    let name = format!("{mnemonic:?}").to_lowercase();
    EXACTLY.contains(&name.as_str()) || BEGINS.iter().any(|begin| name.starts_with(begin))
}
