//! Handlers are ended at every instruction that they execute, and leave no trace.
//!
//! The compiler's assembly gets a countdown before each instruction. It changes no register and no
//! flag, and traps when it reaches zero. The message's last eight bytes hold its start, so one
//! object is ended anywhere.

mod common;
use common::{App, Bench, MODES, datagram, example, gcc, rewrite, spec};
use sfi_ash::handler::HandlerSpec;
use sfi_ash::packet::Destination;
use sfi_dilp::builtin;
use sfi_loader::Mode;
use std::path::Path;

/// Puts the countdown before each instruction of compiled assembly.
fn instrument(assembly: &str) -> String {
    let mut out = String::new();
    let mut text = false;
    for line in assembly.lines() {
        let word = line.trim();
        if word.starts_with(".text") || word.starts_with(".section") {
            text = word.starts_with(".text") || word.contains(".text");
        }
        let instruction = text && line.starts_with('\t') && !word.starts_with('.') && !word.starts_with('#');
        if instruction {
            out.push_str(
                "\tmovq %rcx, countdown_kept(%rip)\n\tmovq countdown(%rip), %rcx\n\tleaq -1(%rcx), %rcx\n\
                 \tmovq %rcx, countdown(%rip)\n\tjrcxz 771f\n\tjmp 772f\n771:\tint3\n772:\tmovq countdown_kept(%rip), %rcx\n",
            );
        }
        out.push_str(line);
        out.push('\n');
        if word == "ash_handle:" {
            // The countdown starts where the message says.
            out.push_str(
                "\tmovq %rcx, countdown_kept(%rip)\n\tmovl %esi, %ecx\n\tmovq -8(%rdi,%rcx), %rcx\n\
                 \tmovq %rcx, countdown(%rip)\n\tmovq countdown_kept(%rip), %rcx\n",
            );
        }
    }
    out + "\t.comm countdown,8,8\n\t.comm countdown_kept,8,8\n"
}

fn object(name: &str, mode: Mode) -> Vec<u8> {
    counted(&example(name), mode)
}

/// Compiles a source with the countdown.
fn counted(source: &Path, mode: Mode) -> Vec<u8> {
    let assembly = String::from_utf8(gcc(source, "-S")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("counted.s");
    std::fs::write(&source, instrument(&assembly)).unwrap();
    rewrite(&gcc(&source, "-c"), &sfi_rewriter::Options { mode, ..Default::default() })
}

/// Everything that a handler could leave behind.
#[derive(Debug, PartialEq, Eq)]
struct Trace {
    state: Vec<u8>,
    segment: Vec<u8>,
    sent: Vec<Vec<u8>>,
    app: App,
}

/// Runs a handler on `first`, and then on a message that is ended after each number of
/// instructions, until it commits.
fn sweep(name: &str, mode: Mode, first: &[&[u8]], message: &[u8]) -> u64 {
    sweep_of(name, spec("handler", object(name, mode), mode), first, message)
}

/// As `sweep`, for a handler of the test's own.
fn sweep_of(name: &str, spec: HandlerSpec, first: &[&[u8]], message: &[u8]) -> u64 {
    let counted = |data: &[u8], count: u64| datagram(7777, &[data, &count.to_le_bytes()].concat());
    let mut bench = bench(spec);
    for data in first {
        bench.take(&counted(data, u64::MAX));
    }
    sweep_on(name, bench, |count| counted(message, count))
}

/// Makes an engine with a handler that has a destination.
fn bench(spec: HandlerSpec) -> Bench {
    let to = Destination { mac: [2, 0, 0, 0, 0, 9], ip: "10.77.0.9".parse().unwrap(), port: 9000, from: 7777 };
    Bench::with(HandlerSpec { destinations: vec![to], ..spec })
}

/// Runs the handler of an engine on a message that is ended after each number of instructions,
/// until it commits. `counted` makes the frame with such a number at its end.
fn sweep_on(name: &str, mut bench: Bench, counted: impl Fn(u64) -> Vec<u8>) -> u64 {
    let mode = bench.engine.handler("handler").unwrap().spec().mode;
    assert!(bench.app.normal.is_empty(), "{name}: the first messages are right");
    bench.app = App::default();
    let memory = |bench: &Bench| (bench.state("handler", 4096), bench.segment("handler", 4096));
    let (state, segment) = memory(&bench);
    for count in 1.. {
        let frame = counted(count);
        let sent = bench.take(&frame);
        let app = std::mem::take(&mut bench.app);
        let (state_now, segment_now) = memory(&bench);
        let found = Trace { state: state_now, segment: segment_now, sent, app };
        if found.app.normal.is_empty() {
            let has_effect = found.state != state || found.segment != segment || !found.sent.is_empty();
            assert!(has_effect, "{name}: the commit has an effect");
            return count - 1;
        }
        let app = App { normal: vec![("Faulted: breakpoint trap".to_owned(), frame)], wakes: Vec::new() };
        let expected = Trace { state: state.clone(), segment: segment.clone(), sent: Vec::new(), app };
        assert_eq!(found.app, expected.app, "{name} in mode {mode}, ended at instruction {count}");
        assert!(found == expected, "{name} in mode {mode} leaves a trace, ended at instruction {count}");
    }
    unreachable!("handlers end")
}

fn row(row: u32, last: usize) -> Vec<u8> {
    row.to_le_bytes().into_iter().chain((0..last as u8).map(|i| i + 1)).collect()
}

#[test]
fn vectoring() {
    // The examples compare the payload's length. The eight bytes of the countdown are its end, so
    // the last two cells of a row.
    for mode in MODES {
        let rows: Vec<Vec<u8>> = (0..3).map(|r| row(r, 24)).collect();
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let count = sweep("vector.c", mode, &rows, &row(3, 24));
        assert!(count > 60, "eight copies and a wake: {count} instructions");
    }
}

#[test]
fn writing() {
    for mode in MODES {
        let request = |data: &[u8]| [&8_u32.to_le_bytes()[..], &(data.len() as u32 + 8).to_le_bytes(), data].concat();
        let count = sweep("write.c", mode, &[&request(b"before")], &request(b"after!!"));
        assert!(count > 15, "{count} instructions");
    }
}

#[test]
fn locking() {
    // A request has no room for the countdown but its own eight bytes: it is the request. The
    // lock's number is the count, and the upper half says that it is taken.
    for mode in MODES {
        let mut bench = Bench::with(spec("handler", object("lock.c", mode), mode));
        let take = 1_u64 << 32;
        // With the count in the message itself, ends come for numbers that are too small only when
        // the upper half is 0, which gives locks back: those that nobody holds are declined.
        assert_eq!(bench.take(&datagram(7777, &take.to_le_bytes())).len(), 1, "taken");
        let before = bench.state("handler", 4096);
        let mut ended = 0;
        for count in 1..64_u64 {
            bench.app = App::default();
            assert_eq!(bench.take(&datagram(7777, &count.to_le_bytes())), [[0; 0]; 0]);
            ended += u32::from(bench.app.normal[0].0.starts_with("Faulted"));
            assert_eq!(bench.state("handler", 4096), before, "faulted or mended by the abort code");
        }
        assert!(ended > 10, "{ended} ends");
    }
}

#[test]
fn incrementing() {
    // The number is the countdown itself, so a commit adds it.
    for mode in MODES {
        let count = sweep("increment.c", mode, &[], b"");
        assert!(count > 8, "{count} instructions");
    }
}

#[test]
fn forwarding() {
    for mode in MODES {
        let count = sweep("forward.c", mode, &[b"a parcel"], b"another one");
        assert!(count > 15, "a copy and two frames: {count} instructions");
    }
}

/// Returns the sum of big-endian words, and of an earlier one, in ones' complement.
fn sum(bytes: &[u8], before: u32) -> u32 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let sum = before + words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16)
}

/// Makes a segment of TCP that `tcp.c` predicts.
fn segment(data: &[u8]) -> Vec<u8> {
    let length = 20 + data.len() as u16;
    let mut frame = datagram(7777, &[&[0; 12], data].concat());
    frame[16..18].copy_from_slice(&(20 + length).to_be_bytes());
    frame[23] = 6;
    frame[24..26].fill(0);
    let found = !sum(&frame[14..34], 0) as u16;
    frame[24..26].copy_from_slice(&found.to_be_bytes());
    let rest = [&500_u32.to_be_bytes()[..], &9000_u32.to_be_bytes(), &[0x50, 0x18, 4, 0, 0, 0, 0, 0]].concat();
    frame[38..54].copy_from_slice(&rest);
    let found = !sum(&frame[34..], sum(&frame[26..34], 6 + u32::from(length))) as u16;
    frame[50..52].copy_from_slice(&found.to_be_bytes());
    frame
}

#[test]
fn receiving_tcp() {
    for mode in MODES {
        let pipes = vec![builtin::chain("copy | checksum").unwrap()];
        let filter = "tcp 7777".parse().unwrap();
        let spec = spec("handler", object("tcp.c", mode), mode);
        let bench = bench(HandlerSpec { pipes, filter, buffer: 8192, ..spec });
        let keep = bench.engine.handler("handler").unwrap().keep();
        // The block of a connection that owes the answer to a segment. See `tcp.c` for its words.
        let frame = segment(b"");
        let word = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().unwrap());
        let block = [1, 500, 9000, 9000, 1024, 1, 4096, word(26), word(30), word(34), 4096, 0, 0, 0];
        let block: Vec<u8> = block.into_iter().flat_map(u32::to_le_bytes).collect();
        keep.state().unwrap().write(0, &block).unwrap();
        // The application waits for any byte.
        keep.buffer().unwrap().write(8, &1_u64.to_le_bytes()).unwrap();
        let count = sweep_on("tcp.c", bench, |count| segment(&[&b"data"[..], &count.to_le_bytes()].concat()));
        assert!(count > 100, "sums, a loop, an answer and a wake: {count} instructions");
        let mut found = [0; 12];
        keep.buffer().unwrap().read(4096, &mut found).unwrap();
        assert_eq!(found[..4], *b"data");
    }
}

/// Passes the payload to the segment twice, so that the second store overlaps the first one.
const PASSES: &str = r#"
#include "ash.h"
static int examine(struct ash_message *m) { return m->length - m->payload >= 8; }
static int commit(struct ash_message *m)
{
    unsigned long sum = 0, length = m->length - m->payload;
    ++*(unsigned long *)ash_state;
    for (unsigned at = 0; at < 16; at += 8)
        if (ash_ilp(m, 0, ash_segment + at, m->payload, length, &sum) != length)
            return -1;
    *(unsigned long *)(ash_state + 8) += sum;
    return ash_reply(&sum, sizeof sum);
}
static void abandon(struct ash_message *m) { (void)m; }
ASH_HANDLER(examine, commit, abandon)
"#;

#[test]
fn passing() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("passes.c");
    std::fs::write(&source, PASSES).unwrap();
    for mode in MODES {
        let pipes = vec![builtin::chain("checksum | swap32").unwrap()];
        let spec = HandlerSpec { pipes, ..spec("handler", counted(&source, mode), mode) };
        let count = sweep_of("passes.c", spec, &[b"the first message"], b"another one!");
        assert!(count > 40, "two loops and two stores: {count} instructions");
    }
}
