//! Today's rival: a remote increment as an XDP program with a map, which the driver runs.

use sfi_ash::bpf::{Insn, Map, MapKind, Program};
use std::io;

/// Registers.
const CONTEXT: u8 = 1;
const END: u8 = 3;
const VALUE: u8 = 4;
const OTHER: u8 = 5;
const DATA: u8 = 6;
const SUM: u8 = 7;
const STACK: u8 = 10;

/// Encodes a load from memory.
fn load(size: u8, to: u8, from: u8, offset: i16) -> Insn {
    Insn::new(0x61 | size, to, from, offset, 0)
}

/// Encodes a store to memory.
fn store(size: u8, to: u8, offset: i16, from: u8) -> Insn {
    Insn::new(0x63 | size, to, from, offset, 0)
}

/// Sizes of loads and stores.
const W32: u8 = 0x00;
const W16: u8 = 0x08;
const W8: u8 = 0x10;
const W64: u8 = 0x18;

/// A jump that is taken to the end, where the frame goes on to the kernel.
enum Item {
    Plain(Insn),
    Unless { code: u8, register: u8, from: u8, number: i32 },
}

/// Loads the program. It increments the first value of the map by the message's eight bytes, writes
/// the sum into the message, and sends the frame back.
pub(super) fn increment(port: u16) -> io::Result<(Program, Map)> {
    let map = Map::new(MapKind::Array, 8, 1)?;
    let [first, second] = Insn::map(1, &map);
    let plain = Item::Plain;
    let unless = |code, register, from, number| Item::Unless { code, register, from, number };
    let mut items = vec![
        plain(load(W32, DATA, CONTEXT, 0)),
        plain(load(W32, END, CONTEXT, 4)),
        plain(Insn::new(0xbf, VALUE, DATA, 0, 0)),
        plain(Insn::new(0x07, VALUE, 0, 0, 50)),
        // Too short: data + 50 > end.
        unless(0x2d, VALUE, END, 0),
        plain(load(W16, VALUE, DATA, 12)),
        unless(0x55, VALUE, 0, i32::from(0x0800_u16.to_be())),
        plain(load(W8, VALUE, DATA, 14)),
        unless(0x55, VALUE, 0, 0x45),
        plain(load(W8, VALUE, DATA, 23)),
        unless(0x55, VALUE, 0, 17),
        plain(load(W16, VALUE, DATA, 36)),
        unless(0x55, VALUE, 0, i32::from(port.to_be())),
        // The map's value: r0 = bpf_map_lookup_elem(map, &0).
        plain(Insn::new(0xb7, VALUE, 0, 0, 0)),
        plain(store(W32, STACK, -4, VALUE)),
        plain(first),
        plain(second),
        plain(Insn::new(0xbf, 2, STACK, 0, 0)),
        plain(Insn::new(0x07, 2, 0, 0, -4)),
        plain(Insn::new(0x85, 0, 0, 0, 1)),
        unless(0x15, 0, 0, 0),
        plain(load(W64, SUM, DATA, 42)),
        plain(load(W64, VALUE, 0, 0)),
        plain(Insn::new(0x0f, SUM, VALUE, 0, 0)),
        plain(store(W64, 0, 0, SUM)),
        plain(store(W64, DATA, 42, SUM)),
    ];
    // Sender and receiver change places: Ethernet, IP, ports. No checksum of UDP is needed then.
    for (size, one, two) in [(W32, 0, 6), (W16, 4, 10), (W32, 26, 30), (W16, 34, 36)] {
        items.push(plain(load(size, VALUE, DATA, one)));
        items.push(plain(load(size, OTHER, DATA, two)));
        items.push(plain(store(size, DATA, one, OTHER)));
        items.push(plain(store(size, DATA, two, VALUE)));
    }
    items.push(plain(Insn::new(0xb7, VALUE, 0, 0, 0)));
    items.push(plain(store(W16, DATA, 40, VALUE)));
    // XDP_TX.
    items.push(plain(Insn::new(0xb7, 0, 0, 0, 3)));
    items.push(plain(Insn::new(0x95, 0, 0, 0, 0)));
    let end = items.len();
    let mut code: Vec<Insn> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let distance = (end - at - 1) as i16;
        code.push(match *item {
            Item::Plain(insn) => insn,
            Item::Unless { code, register, from, number } => Insn::new(code, register, from, distance, number),
        });
    }
    // XDP_PASS.
    code.extend([Insn::new(0xb7, 0, 0, 0, 2), Insn::new(0x95, 0, 0, 0, 0)]);
    Ok((Program::load(&code)?, map))
}
