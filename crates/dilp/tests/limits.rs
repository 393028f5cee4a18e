//! Accesses outside of the domain, numbers of no composition, and what is refused.

mod support;

use sfi_contract::Mode;
use sfi_dilp::{Catalog, ComposeError, Options, Pipe, PipeError, Role, Transfer, TransferId, Width, builtin};
use sfi_loader::CallError;
use support::{Call, Domain, Find, MODES, accept};

#[test]
fn an_access_outside_of_the_memory_is_a_fault() {
    for mode in MODES {
        for line in ["copy", "checksum | swap32", "crc32 | chacha20"] {
            let pipes = builtin::chain(line).unwrap();
            let transfer = Transfer::compose("transfer", &pipes, &Options::new(mode)).unwrap();
            let [source, sink, kept] = Domain::new(mode, [&transfer]).unwrap().places();
            let _ = (source, sink, kept);
            for bad in 0..3 {
                let mut domain = Domain::new(mode, [&transfer]).unwrap();
                let mut places = domain.places();
                // The first pages of a window are never mapped.
                let base = domain.world.domain("dilp").unwrap().secret_base();
                places[bad] = base + 64;
                let [source, sink, kept] = places;
                let call: Call = domain.world.domain("dilp").unwrap().export("transfer").unwrap();
                let result = call.call(&mut domain.world, (sink, source, 300, kept));
                let needs = bad < 2 || transfer.registers() > 0;
                assert_eq!(matches!(result, Err(CallError::Fault(_))), needs, "{mode} {line} {bad}: {result:?}");
            }
        }
    }
}

#[test]
fn a_hostile_length_ends_in_a_fault() {
    for mode in MODES {
        let pipes = builtin::chain("checksum | swap32").unwrap();
        let transfer = Transfer::compose("transfer", &pipes, &Options::new(mode)).unwrap();
        for length in [u64::MAX, 1 << 63, 1 << 32] {
            let mut domain = Domain::new(mode, [&transfer]).unwrap();
            let [source, sink, kept] = domain.places();
            let call: Call = domain.world.domain("dilp").unwrap().export("transfer").unwrap();
            let result = call.call(&mut domain.world, (sink, source, length, kept));
            assert!(matches!(result, Err(CallError::Fault(_))), "{mode} {length:#x}: {result:?}");
        }
    }
}

#[test]
fn a_catalog_finds_compositions_by_number() {
    for mode in MODES {
        let mut catalog = Catalog::new(Options::new(mode));
        for number in 0..5 {
            let text = format!("pipe p\ngauge 8\nout = add in {number}");
            assert_eq!(catalog.add(&[Pipe::parse(&text).unwrap()]), Ok(TransferId(number)));
        }
        assert_eq!(catalog.get(TransferId(4)).unwrap().name(), "dilp_4");
        assert!(catalog.get(TransferId(5)).is_none());
        let mut domain = Domain::with(mode, catalog.object().unwrap()).unwrap();
        let [source, sink, kept] = domain.places();
        domain.world.memory("dilp").unwrap().write(source, &[10]).unwrap();
        let call: Find = domain.world.domain("dilp").unwrap().export("dilp_run").unwrap();
        for number in 0..5 {
            assert_eq!(call.call(&mut domain.world, (number, sink, source, 1, kept)).unwrap(), 1);
            assert_eq!(domain.world.memory("dilp").unwrap().read(sink, 1).unwrap(), [10 + number as u8]);
        }
        for number in [5, 1 << 32, u64::MAX] {
            assert_eq!(call.call(&mut domain.world, (number, sink, source, 1, kept)).unwrap(), u64::MAX);
        }
    }
    let empty = Catalog::new(Options::new(Mode::Write)).object().unwrap();
    accept(Mode::Write, &empty).unwrap();
}

#[test]
fn what_has_no_form_is_refused() {
    let compose = |pipes: &[Pipe], mode| Transfer::compose("transfer", pipes, &Options::new(mode)).map(|_| ());
    assert_eq!(compose(&[builtin::copy()], Mode::Match), Err(ComposeError::Mode));
    assert_eq!(compose(&vec![builtin::copy(); 17], Mode::Write), Err(ComposeError::Many));
    let bad = Pipe::new("bad", Width::W8).output_gauge(Width::W16);
    let error = ComposeError::Pipe { number: 1, error: PipeError::Gauges };
    assert_eq!(compose(&[builtin::copy(), bad], Mode::Write), Err(error));
    let narrow = Pipe::parse("pipe n\ngauge 64 -> 8\nout = move.8 in").unwrap();
    assert_eq!(compose(&vec![narrow; 3], Mode::Write), Err(ComposeError::Unit));
}

#[test]
fn the_listing_names_the_pipe_of_each_instruction() {
    let pipes = builtin::chain("checksum | swap32").unwrap();
    let transfer = Transfer::compose("transfer", &pipes, &Options::new(Mode::Write)).unwrap();
    let lines = transfer.lines();
    let text = |role| lines.iter().filter(move |line| line.role == role).map(|line| line.text.as_str());
    assert!(text(Role::Pipe(1)).any(|text| text.starts_with("bswap")), "{}", transfer.listing());
    assert!(text(Role::Pipe(0)).any(|text| text.starts_with("adc")), "{}", transfer.listing());
    assert!(text(Role::Store).all(|text| text.contains("%gs:")), "{}", transfer.listing());
    assert!(transfer.listing().contains("pipe 1 swap32"));
    // The code is decoded to its end, and each instruction begins where the last one ended.
    assert!(lines.windows(2).all(|pair| pair[0].offset < pair[1].offset));
    assert_eq!(lines.last().unwrap().text, "ret");
}
