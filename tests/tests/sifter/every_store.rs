//! Every form of the positive list that writes memory, executed with extreme registers at random
//! windows.
//!
//! The list itself gives the forms to execute, so a form that is added there fails [`run`] until it
//! is executed. Stores and lockable forms come from encodings drawn from the walk of the opcode
//! space, `movs` and `stos` run inside their region, and calls write the control stack. A form may
//! stay unmet for one reason only, which is checked: CPUID denies its feature and every attempt
//! ended in #UD. The report names those forms.

use super::{ALL, Accepted, Arena, MEMORY, TEXT, accepted, check_effect, context, no_strange_fault};
use crate::machine::{Exit, GUARD, Machine, PAGE, RCX, RDI, RSI, RSP, Registers, WINDOW, Window};
use iced_x86::{Code, CpuidFeature, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpKind, Register};
use sfi_contract::policy::{self, Class, Memory};
use sfi_contract::{Anchors, Mode};
use sfi_tests::random::Random;
use sfi_verifier::{FinalText, Options, Usage, verify_text};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

/// The number of encodings of each form that run.
const ENCODINGS: usize = 5;
/// The number of windows, at random places of the address space.
const WINDOWS: usize = 4;
/// Bytes on either side of an operand that must stay as they are.
const MARGIN: u64 = 64;
/// The header's page, whose first word is the window's base.
const HEADER: u64 = 0xf_f000;

/// The way in which a form reaches the memory that it writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Through its ModRM operand.
    Operand,
    /// Through rdi, inside the string region.
    Region,
    /// Through rsp: a return address on the control stack.
    Control,
}

/// Returns the way in which a form of the list writes memory, if it does.
fn writes(code: Code) -> Option<Way> {
    let form = policy::lookup(code)?;
    match form.memory {
        Memory::Store | Memory::Lockable => return Some(Way::Operand),
        // Forms of these kinds never write their operand. `collect` compares that with iced.
        Memory::Moving | Memory::None | Memory::Address | Memory::Load | Memory::Masked | Memory::Gather => {}
    }
    match (form.class, code) {
        (Class::Branch, Code::Call_rel32_64) | (Class::IndirectBranch, Code::Call_rm64) => Some(Way::Control),
        // Loads and comparisons of the class write registers and flags.
        (Class::String, code) if format!("{code:?}").starts_with("Movs") => Some(Way::Region),
        (Class::String, code) if format!("{code:?}").starts_with("Stos") => Some(Way::Region),
        _ => None,
    }
}

/// Says whether this test has to execute the instruction form.
pub fn is_listed(code: Code) -> bool {
    writes(code).is_some()
}

/// Says whether CPUID grants the feature. If a newly listed store needs another feature, add it
/// here.
pub fn present(feature: CpuidFeature) -> bool {
    use CpuidFeature::*;
    match feature {
        INTEL8086 | INTEL186 | INTEL286 | INTEL386 | INTEL486 | X64 | FPU | FPU287 | FPU387 | CX8 | MMX | SSE
        | SSE2 => true,
        SSE3 => is_x86_feature_detected!("sse3"),
        SSE4_1 => is_x86_feature_detected!("sse4.1"),
        CMPXCHG16B => is_x86_feature_detected!("cmpxchg16b"),
        MOVBE => is_x86_feature_detected!("movbe"),
        F16C => is_x86_feature_detected!("f16c"),
        AVX => is_x86_feature_detected!("avx"),
        AVX2 => is_x86_feature_detected!("avx2"),
        AVX512F => is_x86_feature_detected!("avx512f"),
        AVX512BW => is_x86_feature_detected!("avx512bw"),
        AVX512DQ => is_x86_feature_detected!("avx512dq"),
        AVX512VL => is_x86_feature_detected!("avx512vl"),
        AVX512_VBMI2 => is_x86_feature_detected!("avx512vbmi2"),
        other => panic!("how CPUID says {other:?} is not known here"),
    }
}

/// The results about each form.
#[derive(Default)]
struct Record {
    /// Forms whose writes the processor performed or tried.
    met: BTreeSet<Code>,
    /// Outcomes of forms not (yet) met.
    undefined: BTreeMap<Code, u64>,
    otherwise: BTreeMap<Code, u64>,
    runs: u64,
    faults: u64,
    completed: u64,
}

impl Record {
    fn add(&mut self, code: Code, exit: &Exit, wrote: bool) {
        self.runs += 1;
        self.faults += u64::from(exit.is_write());
        self.completed += u64::from(wrote);
        if exit.is_write() || wrote {
            self.met.insert(code);
        }
        *(if exit.vector == 6 { &mut self.undefined } else { &mut self.otherwise }).entry(code).or_insert(0) += 1;
    }
}

/// Collects a sample of the accepted encodings of each form that stores through its operand. Also
/// compares the list with iced's instruction information: each form that writes memory there must
/// be listed as a store.
fn collect() -> BTreeMap<Code, Vec<Accepted>> {
    let mut sample: BTreeMap<Code, (u64, Vec<Accepted>)> = BTreeMap::new();
    let mut factory = InstructionInfoFactory::new();
    let mut take = |found: &Accepted, random: &mut Random| {
        let code = found.instruction.code();
        let writing = factory.info(&found.instruction).used_memory().iter().any(|memory| {
            use iced_x86::OpAccess::*;
            matches!(memory.access(), Write | CondWrite | ReadWrite | ReadCondWrite)
        });
        // The test of all effects looks at the control stack.
        let saves = code == Code::Push_r64;
        assert!(!writing || saves || is_listed(code), "writes memory and is not listed as such: {}", found.instruction);
        if writes(code) != Some(Way::Operand) || operand(&found.instruction).is_none() {
            return;
        }
        // Reservoir sampling: each accepted encoding has the same chance.
        let (seen, kept) = sample.entry(code).or_default();
        *seen += 1;
        let copy = || Accepted { instruction: found.instruction, bytes: found.bytes.clone(), usage: found.usage };
        if kept.len() < ENCODINGS {
            kept.push(copy());
        } else if let Some(place) = kept.get_mut(random.below(*seen as usize)) {
            *place = copy();
        }
    };
    accepted(ALL, Mode::Write, 4, &mut take);
    // One walk meets nearly all forms: it draws each combination's addressing once, and some
    // drawings are refused.
    for seed in 5..9 {
        accepted(MEMORY, Mode::Write, seed, &mut take);
    }
    sample.into_iter().map(|(code, (_, kept))| (code, kept)).collect()
}

/// Returns the instruction's memory operand, if it has one.
fn operand(instruction: &Instruction) -> Option<u32> {
    (0..instruction.op_count()).find(|i| instruction.op_kind(*i) == OpKind::Memory)
}

/// Returns window offset and length of the instruction's operand, computed by the rules of
/// addressing and not by the processor.
fn extent(found: &Accepted, start: &Registers, base: u64) -> (u64, u64) {
    let value = |register: Register, _, _| {
        // The bytes were decoded at their offset in the window.
        if register == Register::GS || found.instruction.memory_base() == Register::RIP {
            return Some(base);
        }
        let full = register.full_register();
        let value = start.gpr[full as usize - Register::RAX as usize];
        Some(if register == full { value } else { value & 0xffff_ffff })
    };
    let operand = operand(&found.instruction).expect("a memory operand");
    let address = found.instruction.virtual_address(operand, 0, value).expect("registers that exist");
    let offset = address.wrapping_sub(base);
    assert!(offset < WINDOW, "an operand outside: {} {:02x?}", found.instruction, found.bytes);
    (offset, found.instruction.memory_size().size() as u64)
}

/// Returns the values at which address arithmetic is most likely to go wrong.
fn extremes(arena: &Arena) -> Vec<u64> {
    let base = arena.window.base;
    vec![
        0,
        1,
        u64::MAX,
        (1 << 31) - 1,
        1 << 31,
        !((1 << 31) - 1),
        (1 << 32) - 1,
        1 << 32,
        (1 << 47) - 1,
        1 << 47,
        !((1 << 47) - 1),
        !(1 << 47),
        (1 << 56) - 1,
        !((1 << 56) - 1),
        1 << 63,
        (1 << 63) - 1,
        base,
        base - 1,
        base - GUARD,
        base + WINDOW - 1,
        base + WINDOW,
        base + WINDOW + GUARD,
        arena.outside.base,
        arena.outside.base + (1 << 31),
    ]
}

/// Returns every extreme in all registers at once, then mixtures with random values.
fn starts(arena: &Arena, random: &mut Random) -> Vec<Registers> {
    let extremes = extremes(arena);
    let mut starts: Vec<Registers> =
        extremes.iter().map(|value| Registers { gpr: [*value; 16], ..arena.registers(random) }).collect();
    for _ in 0..6 {
        let mut registers = arena.registers(random);
        for register in &mut registers.gpr {
            if random.below(2) == 0 {
                *register = random.pick(&extremes);
            }
        }
        starts.push(registers);
    }
    for start in &mut starts {
        start.gpr[RSP] = arena.stack.base + 8 * PAGE;
    }
    starts
}

/// Makes windows at random multiples of 4 GiB, with the header that the string region reads.
fn arenas(protection: i32, random: &mut Random) -> Vec<Arena> {
    let arena = |_| {
        let arena = Arena::at(Window::random(|| random.next()), protection, libc::PROT_READ);
        arena.window.open(HEADER, PAGE);
        arena.window.write(HEADER, &arena.window.base.to_le_bytes());
        arena.window.protect(HEADER, PAGE, libc::PROT_READ);
        arena
    };
    (0..WINDOWS).map(arena).collect()
}

/// Clears the pages that stores have filled, but neither the text nor the header.
fn discard(window: &Window) {
    window.discard(0, HEADER);
    window.discard(HEADER + PAGE, TEXT - HEADER - PAGE);
    window.discard(TEXT + PAGE, WINDOW - TEXT - PAGE);
}

/// Returns the writable bytes of the window around an operand, without those of the text and the
/// header.
fn margins(offset: u64, length: u64) -> Vec<(u64, u64)> {
    let (low, high) = (offset.saturating_sub(MARGIN), (offset + length + MARGIN).min(WINDOW));
    let clear = |page: u64| high <= page || low >= page + PAGE;
    if !clear(HEADER) || !clear(TEXT) {
        return Vec::new();
    }
    let end = (offset + length).min(WINDOW);
    vec![(low, offset - low), (end, high - end)]
}

/// Says whether an offset lies in an operand. Where the operand passes the window's end, some
/// processors truncate the address of its second half (AMD family 25), and it lies at the start.
fn is_within(offset: u64, length: u64, at: u64) -> bool {
    [at, at + WINDOW].iter().any(|at| (offset..offset + length).contains(at))
}

/// Runs in a window that cannot be written. The fault must be at the operand and nowhere else.
fn fault_by_operand(machine: &mut Machine, arena: &Arena, found: &Accepted, starts: &[Registers], record: &mut Record) {
    arena.place(&found.bytes);
    for start in starts {
        let stack = arena.fill_stack();
        let exit = machine.run(&arena.window, *start, true, true);
        if exit.is_page_fault() {
            let (offset, length) = extent(found, start, arena.window.base);
            let at = exit.address.wrapping_sub(arena.window.base);
            let inside = arena.window.contains(exit.address) && is_within(offset, length, at);
            assert!(inside, "ESCAPE, {offset:#x}+{length}: {}", context(found, start, &exit));
        }
        no_strange_fault(found, start, &exit);
        assert_eq!(arena.stack.read(8 * PAGE - 512, 1024), stack, "control stack: {}", context(found, start, &exit));
        record.add(found.instruction.code(), &exit, false);
    }
}

/// Runs in a window that can be written, while the memory outside cannot. Only the operand may
/// change.
fn write_by_operand(machine: &mut Machine, arena: &Arena, found: &Accepted, starts: &[Registers], record: &mut Record) {
    arena.place(&found.bytes);
    for start in starts {
        let stack = arena.fill_stack();
        let (offset, length) = extent(found, start, arena.window.base);
        let margins = margins(offset, length);
        for (low, size) in &margins {
            arena.window.write(*low, &vec![0xa5; *size as usize]);
        }
        let exit = machine.run(&arena.window, *start, true, true);
        if exit.is_page_fault() {
            let at = exit.address.wrapping_sub(arena.window.base);
            let inside = arena.window.contains(exit.address) && is_within(offset, length, at);
            assert!(inside, "ESCAPE, {offset:#x}+{length}: {}", context(found, start, &exit));
        }
        no_strange_fault(found, start, &exit);
        if exit.vector == 1 {
            check_effect(found, arena, start, &exit, &stack);
        }
        for (low, size) in &margins {
            let around = arena.window.read(*low, *size as usize);
            assert!(around.iter().all(|byte| *byte == 0xa5), "around the operand: {}", context(found, start, &exit));
        }
        record.add(found.instruction.code(), &exit, exit.vector == 1 && !margins.is_empty());
    }
}

/// Decodes the instruction after a region's preparation, and asks the verifier about the whole.
fn string(bytes: &[u8]) -> Accepted {
    let code = crate::string_region(true, bytes);
    let mut text = code.clone();
    text.push(0xcc);
    let text = FinalText {
        bytes: &text,
        offset: super::TEXT + super::INSET,
        gateways: &[],
        slots: &[],
        anchors: Anchors::EXAMPLE,
    };
    verify_text(&text, &Options::default()).unwrap_or_else(|found| panic!("the string region is refused: {found:?}"));
    let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
    Accepted { instruction, bytes: code, usage: Usage::default() }
}

/// Returns `movs` and `stos` of all widths, alone and repeated.
fn strings() -> Vec<Accepted> {
    let mut all = Vec::new();
    for opcode in [0xa4, 0xa5, 0xaa, 0xab] {
        for repeat in [&[][..], &[0xf3]] {
            for width in [&[][..], &[0x66], &[0x48]] {
                // `66 rep` in the order that assemblers choose; REX next to the opcode.
                let (legacy, rex) = if width == [0x48] { (&[][..], width) } else { (width, &[][..]) };
                if opcode & 1 == 0 && !width.is_empty() {
                    continue;
                }
                all.push(string(&[legacy, repeat, rex, &[opcode]].concat()));
            }
        }
    }
    all
}

/// Runs a string region. With a writable window a repetition is short, because it would fill
/// gigabytes. Its run into the guard has a test of its own.
fn run_string(machine: &mut Machine, arena: &Arena, found: &Accepted, start: &Registers, writable: bool) -> Exit {
    let mut start = *start;
    if writable || start.gpr[RCX] == 0 {
        start.gpr[RCX] = 1 + start.gpr[RCX] % 16;
    }
    let exit = machine.run(&arena.window, start, false, true);
    if exit.is_page_fault() {
        assert!(arena.window.contains(exit.address), "ESCAPE: {}", context(found, &start, &exit));
        let (to, from) = (start.gpr[RDI] & 0xffff_ffff, start.gpr[RSI] & 0xffff_ffff);
        let begin = if exit.is_write() { to } else { from.min(to) };
        let at = exit.address - arena.window.base;
        assert!(
            (begin..begin + 16 * 8).contains(&at) || !exit.is_write(),
            "{begin:#x}: {}",
            context(found, &start, &exit)
        );
    } else {
        assert_eq!(exit.vector, 3, "{}", context(found, &start, &exit));
    }
    exit
}

/// Checks that a call writes its return address below rsp, for any values of the other registers,
/// and no other byte of the control stack.
fn calls(machine: &mut Machine, arena: &Arena, random: &mut Random, record: &mut Record) {
    // and $0xffff8,%ecx; call *%gs:0x100000(%ecx). The table is empty, so the call ends in a fault
    // at address 0 after the push.
    let indirect = [0x81, 0xe1, 0xf8, 0xff, 0x0f, 0x00, 0x65, 0x67, 0xff, 0x91, 0x00, 0x00, 0x10, 0x00];
    // call .+5
    let direct = [0xe8, 0, 0, 0, 0];
    for (code, bytes) in [(Code::Call_rm64, &indirect[..]), (Code::Call_rel32_64, &direct)] {
        arena.place(bytes);
        for start in starts(arena, random) {
            let mut stack = arena.fill_stack();
            let exit = machine.run(&arena.window, start, false, true);
            let next = start.rip + bytes.len() as u64;
            stack[504..512].copy_from_slice(&next.to_le_bytes());
            let ended = if code == Code::Call_rm64 { exit.registers.rip == 0 } else { exit.vector == 3 };
            assert!(ended && !exit.is_write(), "{code:?} {start:x?} {exit:x?}");
            assert_eq!(arena.stack.read(8 * PAGE - 512, 1024), stack, "{code:?} {start:x?} {exit:x?}");
            record.add(code, &exit, true);
        }
    }
}

/// Executes every form of the list that writes memory. Nothing outside of the window and its guard
/// is written.
pub fn run() {
    let mut machine = Machine::new();
    let mut random = Random(RandomState::new().hash_one(0));
    let (sealed, open) =
        (arenas(libc::PROT_READ, &mut random), arenas(libc::PROT_READ | libc::PROT_WRITE, &mut random));
    let bases: Vec<String> = sealed.iter().chain(&open).map(|arena| format!("{:#x}", arena.window.base)).collect();
    println!("windows at {}, registers from seed {:#x}", bases.join(" "), random.0);
    let mut record = Record::default();
    let (mut encodings, mut turn) = (0, 0);
    for found in collect().values().flatten() {
        (encodings, turn) = (encodings + 1, (turn + 1) % WINDOWS);
        fault_by_operand(&mut machine, &sealed[turn], found, &starts(&sealed[turn], &mut random), &mut record);
        write_by_operand(&mut machine, &open[turn], found, &starts(&open[turn], &mut random), &mut record);
        if encodings % 64 == 0 {
            open.iter().for_each(|arena| discard(&arena.window));
        }
    }
    for found in strings() {
        encodings += 1;
        for (arena, writable) in sealed.iter().map(|arena| (arena, false)).chain(open.iter().map(|arena| (arena, true)))
        {
            arena.place(&found.bytes);
            for start in starts(arena, &mut random) {
                let exit = run_string(&mut machine, arena, &found, &start, writable);
                record.add(found.instruction.code(), &exit, writable && exit.vector == 3);
            }
            discard(&arena.window);
        }
    }
    for arena in &sealed {
        calls(&mut machine, arena, &mut random, &mut record);
    }
    report(&record, encodings);
}

/// Reports the forms that ran, and fails if a listed form did not and the processor is not the
/// reason.
fn report(record: &Record, encodings: usize) {
    let listed: Vec<Code> = policy::allowed().map(|(code, _)| code).filter(|code| is_listed(*code)).collect();
    let (mut unsupported, mut missing) = (Vec::new(), Vec::new());
    for code in listed.iter().filter(|code| !record.met.contains(code)) {
        let denied = code.cpuid_features().iter().any(|feature| !present(*feature));
        let tried = record.undefined.contains_key(code) && !record.otherwise.contains_key(code);
        if denied && tried { unsupported.push(*code) } else { missing.push(*code) }
    }
    let Record { met, runs, faults, completed, .. } = record;
    println!(
        "{} of {} listed forms that write memory executed: {encodings} encodings, {runs} runs, {faults} write faults, \
         {completed} completed; this CPU cannot run {}: {unsupported:?}",
        met.len(),
        listed.len(),
        unsupported.len()
    );
    assert!(missing.is_empty(), "{} listed forms that write memory were not executed: {missing:?}", missing.len());
    assert!(met.iter().all(|code| listed.contains(code)), "a form wrote memory that is not listed to");
}

/// Checks that the test sees an escape: without GS, or with GS and a 64-bit address, the store
/// leaves the window.
pub fn unconfined() {
    let mut machine = Machine::new();
    let arena = Arena::new(libc::PROT_READ, libc::PROT_READ);
    // mov %rax,(%rdi); mov %rax,(%edi); mov %rax,%gs:(%rdi)
    for bytes in [&[0x48, 0x89, 0x07][..], &[0x67, 0x48, 0x89, 0x07], &[0x65, 0x48, 0x89, 0x07]] {
        arena.place(bytes);
        let start = |rdi| {
            let mut start = arena.registers(&mut Random(6));
            start.gpr[RDI] = rdi;
            start
        };
        let outside = arena.outside.base + (1 << 31);
        let escapes = |rdi| {
            let exit = machine.run(&arena.window, start(rdi), true, true);
            exit.is_write() && !arena.window.contains(exit.address)
        };
        let seen = [outside, outside.wrapping_sub(arena.window.base), 0].map(escapes);
        assert!(seen.contains(&true), "{bytes:02x?} never left the window");
        let text = FinalText {
            bytes,
            offset: super::TEXT + super::INSET,
            gateways: &[],
            slots: &[],
            anchors: Anchors::EXAMPLE,
        };
        assert!(verify_text(&text, &Options::default()).is_err(), "{bytes:02x?} is accepted");
    }
}
