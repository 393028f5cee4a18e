//! Files that are no x86-64 objects, in words for the person who gave them.

/// The class, byte order, type and machine of an object that `sfi` handles.
const WANTED: (u8, u8, u16, u16) = (2, 1, 1, 62);

/// Machines by their number in the ELF header (gABI, chapter *ELF Header*, `e_machine`).
const MACHINES: [(u16, &str); 9] = [
    (3, "32-bit x86"),
    (8, "MIPS"),
    (20, "PowerPC"),
    (21, "64-bit PowerPC"),
    (22, "s390"),
    (40, "32-bit Arm"),
    (183, "AArch64"),
    (243, "RISC-V"),
    (258, "LoongArch"),
];

/// Forms of files by their first bytes.
const FORMS: [(&[u8], &str); 8] = [
    (b"\0asm", "a WebAssembly module"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O file, for macOS"),
    (b"\xca\xfe\xba\xbe", "a Mach-O file, for macOS"),
    (b"MZ", "a Windows program"),
    (b"\x64\x86", "a COFF object, for Windows"),
    (b"!<thin>\n", "a thin archive; make one that holds its members (`ar rc`)"),
    (b"!<arch>\n", "an archive, where an object is expected"),
    (b"#!", "a script"),
];

/// Names the kind of a file that is no relocatable object for x86-64. `None` if its ELF header says
/// that it is one.
pub fn describe(file: &[u8]) -> Option<String> {
    let half = |at: usize| file.get(at..).and_then(|rest| rest.first_chunk()).copied().map(u16::from_le_bytes);
    if !file.starts_with(b"\x7fELF") {
        let form = FORMS.iter().find(|(start, _)| file.starts_with(start));
        return Some(match form {
            Some((_, form)) => format!("not an ELF file: {form}"),
            None if file.is_empty() => "the file is empty".to_owned(),
            None => "not an ELF file".to_owned(),
        });
    }
    let (Some(&class), Some(&order), Some(kind), Some(machine)) = (file.get(4), file.get(5), half(16), half(18)) else {
        return Some("the ELF header is cut short".to_owned());
    };
    if (class, order, kind, machine) == WANTED {
        return None;
    }
    let name = MACHINES.iter().find(|(number, _)| *number == machine);
    Some(match (class, order, name) {
        (_, 2, _) => "a big-endian object, for another machine than x86-64".to_owned(),
        (_, _, Some((3, name))) => format!("an object for {name}; compile with -m64"),
        (_, _, Some((_, name))) => format!("an object for {name}, not for x86-64"),
        _ if machine != WANTED.3 => format!("an object for machine {machine}, not for x86-64"),
        (1, ..) => "an x32 object, with 32-bit pointers; compile with -m64".to_owned(),
        _ if kind == 2 => "an executable, which is linked already; give the objects that it was made from".to_owned(),
        _ if kind == 3 => "a shared object or position-independent executable, which is linked already; give its \
                           objects or its static library (`.a`)"
            .to_owned(),
        _ if kind == 4 => "a core dump".to_owned(),
        _ => format!("ELF type {kind} is not a relocatable object (`.o`)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an ELF header with these fields.
    fn header(class: u8, order: u8, kind: u16, machine: u16) -> Vec<u8> {
        let mut bytes = b"\x7fELF".to_vec();
        bytes.extend([class, order]);
        bytes.resize(16, 0);
        bytes.extend(kind.to_le_bytes());
        bytes.extend(machine.to_le_bytes());
        bytes
    }

    #[test]
    fn relocatable_objects_for_this_machine_are_not_foreign() {
        assert_eq!(describe(&header(2, 1, 1, 62)), None);
    }

    #[test]
    fn each_kind_has_its_sentence() {
        let cases = [
            (header(1, 1, 1, 3), "-m64"),
            (header(1, 1, 1, 62), "x32"),
            (header(2, 1, 1, 183), "AArch64"),
            (header(2, 1, 1, 4711), "machine 4711"),
            (header(2, 2, 1, 62), "big-endian"),
            (header(2, 1, 2, 62), "executable"),
            (header(2, 1, 3, 62), "static library"),
            (header(2, 1, 4, 62), "core dump"),
            (header(2, 1, 9, 62), "ELF type 9"),
            (header(2, 1, 1, 62)[..17].to_vec(), "cut short"),
            (Vec::new(), "empty"),
            (b"int f(void);".to_vec(), "not an ELF file"),
            (b"\0asm\x01\0\0\0".to_vec(), "WebAssembly"),
            (b"!<thin>\n".to_vec(), "thin"),
        ];
        for (file, expected) in cases {
            let text = describe(&file).expect("it is foreign");
            assert!(text.contains(expected), "{text}");
        }
    }
}
