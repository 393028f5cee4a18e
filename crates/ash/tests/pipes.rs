//! Loops of pipes in handlers, and budgets of instructions.

mod common;
use common::{Bench, MODES, gcc_with, rewrite, spec};
use sfi_ash::back::Backend;
use sfi_ash::handler::{Handler, HandlerError, HandlerSpec};
use sfi_ash::manifest::{Manifest, ManifestError};
use sfi_dilp::{Options, Pipe, Transfer, builtin, interpret};
use sfi_loader::Mode;
use std::path::Path;

/// Passes the bytes after the first one through the loop that the first one numbers, to the state.
/// Replies what the loop returned and its registers.
const PASSES: &str = r#"
#include "ash.h"
static struct { unsigned long stored, registers[16]; } answer;
static int examine(struct ash_message *m) { return m->length > m->payload; }
static int commit(struct ash_message *m)
{
    for (int i = 0; i < 16; i++) answer.registers[i] = i;
    unsigned extra = m->bytes[m->payload] & 0x80 ? 5 : 0;
    answer.stored = ash_ilp(m, m->bytes[m->payload] & 0x7f, ash_state + 64, m->payload + 1,
                            m->length - m->payload - 1 + extra, answer.registers);
    return ash_reply(&answer, sizeof answer);
}
static void abandon(struct ash_message *m) { (void)m; }
ASH_HANDLER(examine, commit, abandon)
"#;

/// Passes the bytes after the first eight through the loop and to the place of the segment that
/// those say. Replies what the loop returned.
const STORES: &str = r#"
#include "ash.h"
static struct { unsigned loop, place; } request;
static unsigned long stored;
static int examine(struct ash_message *m) { return m->length - m->payload >= 8; }
static int commit(struct ash_message *m)
{
    unsigned long registers[16] = {0};
    __builtin_memcpy(&request, m->bytes + m->payload, 8);
    ++*(unsigned long *)ash_state;
    stored = ash_ilp(m, request.loop, ash_segment + request.place, m->payload + 8,
                     m->length - m->payload - 8, registers);
    for (volatile int i = 0; i < 8; i++); /* so that a budget can end after the store */
    return ash_reply(&stored, sizeof stored);
}
static void abandon(struct ash_message *m) { (void)m; }
ASH_HANDLER(examine, commit, abandon)
"#;

/// Stores the message's bytes to a place of the segment, from the memory that the request names.
const MOVES: &str = r#"
#include "ash.h"
static unsigned char own[64];
static int answer;
static int examine(struct ash_message *m) { return m->length - m->payload >= 16; }
static int commit(struct ash_message *m)
{
    unsigned long from, at;
    unsigned length;
    __builtin_memcpy(&at, m->bytes + m->payload, 8);
    __builtin_memcpy(&length, m->bytes + m->payload + 8, 4);
    for (unsigned i = 0; i < sizeof own; i++) own[i] = i + 1;
    from = m->bytes[m->payload + 12] ? 0x1000 : (unsigned long)own;
    answer = ash_store(ash_segment + at, (void *)from, length);
    return ash_reply(&answer, sizeof answer);
}
static void abandon(struct ash_message *m) { (void)m; }
ASH_HANDLER(examine, commit, abandon)
"#;

/// Runs as many rounds as the message says, and counts messages before.
const ROUNDS: &str = r#"
#include "ash.h"
static int examine(struct ash_message *m) { return m->length - m->payload == 4; }
static int commit(struct ash_message *m)
{
    unsigned rounds;
    __builtin_memcpy(&rounds, m->bytes + m->payload, sizeof rounds);
    ++*(volatile unsigned long *)ash_state;
    for (volatile unsigned i = 0; i < rounds; i++);
    return 0;
}
static void abandon(struct ash_message *m) { (void)m; }
ASH_HANDLER(examine, commit, abandon)
"#;

fn handler(text: &str, mode: Mode, budget: Option<u64>) -> HandlerSpec {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("handler.c");
    std::fs::write(&source, text).unwrap();
    let options = sfi_rewriter::Options { mode, budget: budget.is_some(), ..Default::default() };
    let object = rewrite(&gcc_with(&source, "-c", &["-ffixed-r14"]), &options);
    HandlerSpec { budget, ..spec("handler", object, mode) }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn a_handler_s_loops_are_its_pipes() {
    let chains = ["copy | checksum", "checksum | xor32 | swap32", "crc32"];
    for (mode, budget) in MODES.into_iter().flat_map(|mode| [(mode, None), (mode, Some(100_000))]) {
        let pipes: Vec<_> = chains.iter().map(|line| builtin::chain(line).unwrap()).collect();
        let mut bench = Bench::with(HandlerSpec { pipes: pipes.clone(), ..handler(PASSES, mode, budget) });
        for length in [0, 1, 7, 64, 999, 1400] {
            let data: Vec<u8> = (0..length).map(|i| (i * 37 + 11) as u8).collect();
            for (number, pipes) in pipes.iter().enumerate() {
                let [answer] = bench.datagram(&[&[number as u8], data.as_slice()].concat()).try_into().unwrap();
                let mut registers: Vec<u64> = (0..16).collect();
                let expected = interpret(pipes, &mut registers, &data);
                let answer = words(&answer);
                assert_eq!(answer[0], expected.len() as u64);
                assert_eq!(answer[1..], registers, "{mode} {number} {length}");
                assert_eq!(bench.state("handler", 64 + data.len())[64..], expected);
            }
        }
        // A loop that is not there, and bytes that the message does not have.
        for wrong in [3, 0x80] {
            let [answer] = bench.datagram(&[wrong, 1, 2]).try_into().unwrap();
            assert_eq!(words(&answer)[0], u64::MAX);
        }
    }
}

/// Chains whose loops keep the length, grow and shrink.
fn chains() -> Vec<Vec<Pipe>> {
    let widen = "pipe widen\ngauge 8 -> 64\nt = mul.64 in 257\nout = move.64 t\n";
    let narrow = "pipe narrow\ngauge 32 -> 16\nout = move.16 in\n";
    let own = |text: &str| vec![Pipe::parse(text).unwrap()];
    vec![builtin::chain("checksum | swap32").unwrap(), own(widen), own(narrow)]
}

#[test]
fn loops_store_to_the_segment() {
    for (mode, budget) in MODES.into_iter().flat_map(|mode| [(mode, None), (mode, Some(100_000))]) {
        let pipes = chains();
        let mut bench = Bench::with(HandlerSpec { pipes: pipes.clone(), ..handler(STORES, mode, budget) });
        let mut segment = vec![0; 4096];
        let mut refused = 0;
        for length in [0, 1, 7, 64, 200, 999, 1400] {
            let data: Vec<u8> = (0..length).map(|i| (i * 37 + 11 + length) as u8).collect();
            for (number, pipes) in pipes.iter().enumerate() {
                for place in [0, 1, 100, 4095_u32] {
                    let request = [&(number as u32).to_le_bytes()[..], &place.to_le_bytes(), &data].concat();
                    let answer = bench.datagram(&request);
                    let out = interpret(pipes, &mut [0; 16], &data);
                    let (from, end) = (place as usize, place as usize + out.len());
                    if end > 4096 {
                        assert_eq!(words(&answer[0]), [u64::MAX], "a part of the range is outside");
                        refused += 1;
                    } else {
                        assert_eq!(words(&answer[0]), [out.len() as u64]);
                        segment[from..end].copy_from_slice(&out);
                    }
                    assert_eq!(bench.segment("handler", 4096), segment, "{mode} {number} {length} at {place}");
                }
            }
        }
        assert!(refused > 10, "{refused} ranges that leave the segment");
    }
}

#[test]
fn a_budget_that_ends_in_any_part_of_a_loop_leaves_the_segment() {
    let first = [&0_u32.to_le_bytes()[..], &0_u32.to_le_bytes(), b"what was there before the loop"].concat();
    let second = [&0_u32.to_le_bytes()[..], &8_u32.to_le_bytes(), &[7; 100]].concat();
    for mode in MODES {
        let make = |budget| HandlerSpec { pipes: chains(), ..handler(STORES, mode, Some(budget)) };
        let mut spec = make(1);
        let (mut ended, mut committed) = (0, 0);
        for budget in (1..).step_by(3) {
            spec.budget = Some(100_000);
            let mut bench = Bench::with(spec.clone());
            bench.datagram(&first);
            let before = (bench.state("handler", 8), bench.segment("handler", 4096));
            let keep = bench.engine.handler("handler").unwrap().keep();
            spec.budget = Some(budget);
            let memory = bench.engine.backend().memory().clone();
            let longest = bench.engine.backend().longest();
            let next = Handler::with(spec.clone(), &memory, longest, keep).unwrap();
            bench.engine.install(next).unwrap();
            let answers = bench.datagram(&second);
            let after = (bench.state("handler", 8), bench.segment("handler", 4096));
            if answers.is_empty() {
                assert!(bench.app.normal.iter().all(|(reason, _)| reason.contains("budget")), "{:?}", bench.app);
                assert_eq!(after, before, "{mode}, ended after {budget} instructions");
                ended += 1;
            } else {
                assert_eq!(words(&answers[0]), [100]);
                assert!(after != before);
                committed += 1;
                break;
            }
        }
        assert!(ended > 20 && committed == 1, "{ended} ends");
    }
}

#[test]
fn stores_from_and_to_wrong_places_have_no_effect() {
    for mode in MODES {
        let mut bench = Bench::with(handler(MOVES, mode, None));
        let mut ask = |at: u64, length: u32, wild: u8| {
            let [answer] = bench
                .datagram(&[&at.to_le_bytes()[..], &length.to_le_bytes(), &[wild, 0, 0, 0]].concat())
                .try_into()
                .unwrap();
            (i32::from_le_bytes(answer.try_into().unwrap()), bench.segment("handler", 4096))
        };
        let mut segment = vec![0; 4096];
        assert_eq!(ask(4090, 6, 0), (0, [&segment[..4090], &[1, 2, 3, 4, 5, 6]].concat()));
        segment[4090..].copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        assert_eq!(ask(5, 0, 0), (0, segment.clone()), "nothing is stored");
        for (at, length, wild) in [
            (4091, 6, 0),
            (4096, 1, 0),
            (u64::MAX, 4, 0),
            (0_u64.wrapping_sub(4096), 8, 0),
            (0, 8, 1),
            (0, u32::MAX, 0),
            (0, 1 << 21, 0),
        ] {
            assert_eq!(ask(at, length, wild), (-1, segment.clone()), "{length} bytes at {at}");
        }
    }
    // A handler with loops needs no segment, and one with a segment no loops.
    for (text, pipes, segment) in [(PASSES, chains(), 0), (MOVES, Vec::new(), 4096)] {
        Bench::with(HandlerSpec { pipes, segment, ..handler(text, Mode::Write, None) });
    }
}

#[test]
fn a_budget_ends_a_handler_and_undoes_its_writes() {
    for mode in MODES {
        let mut bench = Bench::with(handler(ROUNDS, mode, Some(2000)));
        for rounds in [0_u32, 50, 100_000, u32::MAX, 20] {
            bench.datagram(&rounds.to_le_bytes());
        }
        assert_eq!(words(&bench.state("handler", 8)), [3], "messages within the budget");
        let reasons: Vec<&str> = bench.app.normal.iter().map(|(reason, _)| reason.as_str()).collect();
        assert_eq!(reasons.len(), 2);
        assert!(reasons.iter().all(|reason| reason.contains("budget")), "{reasons:?}");
        // Objects without checks have no budget.
        let plain = HandlerSpec { budget: Some(2000), ..handler(ROUNDS, mode, None) };
        let (_, ring, _) = sfi_ash::back::ring::ring(1, 2048).unwrap();
        let refused = Handler::new(plain, ring.memory(), ring.longest());
        assert!(matches!(refused, Err(HandlerError::Build { .. })));
    }
}

/// Passes the bytes after the first four to the buffer, then runs as many rounds as those say.
const FILLS: &str = r#"
#include "ash.h"
static int examine(struct ash_message *m) { return m->length - m->payload >= 4; }
static int commit(struct ash_message *m)
{
    unsigned rounds, length = m->length - m->payload - 4;
    unsigned long size = ash_buffer_end - ash_buffer;
    __builtin_memcpy(&rounds, m->bytes + m->payload, sizeof rounds);
    ++*(volatile unsigned long *)ash_state;
    if (length > size || ash_ilp(m, 0, ash_buffer, m->payload + 4, length, 0) != length)
        return 1;
    for (volatile unsigned i = 0; i < rounds; i++);
    return 0;
}
static void abandon(struct ash_message *m) { (void)m; }
ASH_HANDLER(examine, commit, abandon)
"#;

#[test]
fn no_abort_restores_the_buffer() {
    for (mode, segment) in MODES.into_iter().flat_map(|mode| [(mode, 0), (mode, 4096)]) {
        let pipes = vec![builtin::chain("copy").unwrap()];
        let spec = HandlerSpec { pipes, segment, buffer: 4096, ..handler(FILLS, mode, Some(5000)) };
        let mut bench = Bench::with(spec.clone());
        let keep = bench.engine.handler("handler").unwrap().keep();
        let mut application = keep.buffer().unwrap();
        let mut fill = |rounds: u32, data: &[u8]| {
            bench.datagram(&[&rounds.to_le_bytes(), data].concat());
            let mut found = vec![0; data.len()];
            application.read(0, &mut found).unwrap();
            let count = words(&bench.state("handler", 8))[0];
            (found == data, count, bench.app.normal.len())
        };
        assert_eq!(fill(1, b"a message"), (true, 1, 0));
        assert_eq!(fill(1_000_000, b"another message"), (true, 1, 1), "state is restored, the buffer is not");
        assert_eq!(fill(1, &[7; 1000]), (true, 2, 1));
        // The application writes to it, too, and a next handler finds all of it.
        application.write(0, b"A").unwrap();
        let memory = bench.engine.backend().memory().clone();
        let longest = bench.engine.backend().longest();
        let wrong = HandlerSpec { buffer: 8192, ..spec.clone() };
        assert!(matches!(Handler::with(wrong, &memory, longest, keep.clone()), Err(HandlerError::Size(_))));
        let next = Handler::with(spec, &memory, longest, keep).unwrap();
        bench.engine.install(next).unwrap();
        let mut found = [0; 3];
        bench.engine.handler("handler").unwrap().keep().buffer().unwrap().read(0, &mut found).unwrap();
        assert_eq!(found, *b"A\x07\x07");
    }
}

#[test]
fn a_manifest_names_pipes_and_budgets() {
    let text = |line: &str| {
        format!(
            "pipes = \"\"\"\npipe flip\ngauge 8\nout = not in\n\"\"\"\n[owners.a]\nquota = 1\n\
             [handlers.h]\non = \"all\"\nowner = \"a\"\nbudget = 2000\nbuffer = \"8 KiB\"\npipes = [\"{line}\", \"copy\"]\n"
        )
    };
    let read = |line: &str| Manifest::parse(&text(line), Path::new("h.toml")).unwrap().handlers(Path::new("."));
    let [spec] = read("flip | checksum").unwrap().try_into().unwrap();
    assert_eq!((spec.budget, spec.buffer), (Some(2000), 8192));
    let names: Vec<Vec<&str>> = spec.pipes.iter().map(|all| all.iter().map(|pipe| pipe.name()).collect()).collect();
    assert_eq!(names, [vec!["flip", "checksum"], vec!["copy"]]);
    let own = Transfer::compose("own", &spec.pipes[0], &Options { budget: true, ..Options::new(Mode::Write) }).unwrap();
    assert_eq!(spec.loops().unwrap().transfers()[0].code(), own.code());
    assert!(matches!(read("flop"), Err(ManifestError::Chain { .. })));
}
