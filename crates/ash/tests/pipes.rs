//! Loops of pipes in handlers, and budgets of instructions.

mod common;
use common::{Bench, MODES, gcc_with, rewrite, spec};
use sfi_ash::handler::{Handler, HandlerError, HandlerSpec};
use sfi_ash::manifest::{Manifest, ManifestError};
use sfi_dilp::{Options, Transfer, builtin, interpret};
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
    let options = sfi_rewriter::Options { mode, budget: budget.is_some() };
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
        use sfi_ash::back::Backend;
        let refused = Handler::new(plain, ring.memory(), ring.longest());
        assert!(matches!(refused, Err(HandlerError::Build { .. })));
    }
}

#[test]
fn a_manifest_names_pipes_and_budgets() {
    let text = |line: &str| {
        format!(
            "pipes = \"\"\"\npipe flip\ngauge 8\nout = not in\n\"\"\"\n[owners.a]\nquota = 1\n\
             [handlers.h]\non = \"all\"\nowner = \"a\"\nbudget = 2000\npipes = [\"{line}\", \"copy\"]\n"
        )
    };
    let read = |line: &str| Manifest::parse(&text(line), Path::new("h.toml")).unwrap().handlers(Path::new("."));
    let [spec] = read("flip | checksum").unwrap().try_into().unwrap();
    assert_eq!(spec.budget, Some(2000));
    let names: Vec<Vec<&str>> = spec.pipes.iter().map(|all| all.iter().map(|pipe| pipe.name()).collect()).collect();
    assert_eq!(names, [vec!["flip", "checksum"], vec!["copy"]]);
    let own = Transfer::compose("own", &spec.pipes[0], &Options { budget: true, ..Options::new(Mode::Write) }).unwrap();
    assert_eq!(spec.loops().unwrap().transfers()[0].code(), own.code());
    assert!(matches!(read("flop"), Err(ManifestError::Chain { .. })));
}
