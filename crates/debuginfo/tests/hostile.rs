//! Debug information that is expensive on purpose. The budget ends the work.

use sfi_debuginfo::{Fuel, Meaning, Raw, Sections, address, lookup};
use std::time::{Duration, Instant};

/// Returns one unit of version 4 with `count` subprograms that share a range list of `count`
/// entries. Reading it takes the square of `count` steps.
fn shared_ranges(count: u32) -> Vec<(&'static str, Vec<u8>)> {
    let inside = address(1, 0x10);
    let mut abbreviations = vec![1, 0x11, 1, 0x11, 0x01, 0x55, 0x17, 0, 0];
    abbreviations.extend([2, 0x2e, 0, 0x03, 0x08, 0x55, 0x17, 0, 0, 0]);
    let mut body = vec![4, 0, 0, 0, 0, 0, 8, 1];
    body.extend([0; 8]);
    body.extend([0; 4]);
    for _ in 0..count {
        body.extend([2, b'f', 0, 0, 0, 0, 0]);
    }
    body.push(0);
    let mut info = (body.len() as u32).to_le_bytes().to_vec();
    info.extend(body);
    let mut ranges = Vec::new();
    for _ in 0..count {
        ranges.extend(inside.to_le_bytes());
        ranges.extend((inside + 4).to_le_bytes());
    }
    ranges.extend([0; 16]);
    vec![(".debug_abbrev", abbreviations), (".debug_info", info), (".debug_ranges", ranges)]
}

/// Returns a unit whose root gives its addresses by attributes (name, form) and their values.
fn root(header: &[u8], attributes: &[(u8, u8)], values: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut abbreviations = vec![1, 0x11, 0];
    abbreviations.extend(attributes.iter().flat_map(|(name, form)| [*name, *form]));
    abbreviations.extend([0, 0, 0]);
    vec![(".debug_abbrev", abbreviations), (".debug_info", [header, &[1], values].concat())]
}

#[test]
fn addresses_that_overflow_are_none() {
    // `DW_AT_low_pc` and `DW_AT_high_pc`: an address and a size.
    let header = [24, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8];
    let sized = |low: u64, size: u64| {
        let values = [low.to_le_bytes(), size.to_le_bytes()].concat();
        root(&header, &[(0x11, 0x01), (0x12, 0x07)], &values)
    };
    // `DW_AT_rnglists_base` and an index, in a unit of version 5 in the 64-bit format.
    let mut header = vec![0xff, 0xff, 0xff, 0xff];
    header.extend(22u64.to_le_bytes());
    header.extend([5, 0, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
    let indexed = |offset: u64| {
        let values = [&8u64.to_le_bytes()[..], &[0]].concat();
        let mut sections = root(&header, &[(0x74, 0x17), (0x55, 0x23)], &values);
        sections.push((".debug_rnglists", [[0; 8], offset.to_le_bytes()].concat()));
        sections
    };
    for sections in
        [sized(u64::MAX, 1), sized(1, u64::MAX), sized(16, 4), indexed(u64::MAX), indexed(u64::MAX - 7), indexed(8)]
    {
        let frames = lookup(&gather(&sections), &[0, 16, u64::MAX], &mut Fuel::default());
        assert!(frames.iter().all(Vec::is_empty), "{frames:?}");
    }
}

fn gather<'a>(sections: &'a [(&'static str, Vec<u8>)]) -> Sections<'a> {
    let raw = sections.iter().map(|(name, data)| Raw {
        name: name.as_bytes(),
        data,
        compressed: false,
        grouped: false,
        relocations: Vec::new(),
    });
    Sections::gather(raw, |_| Some(Meaning::Other(0))).expect("nothing is compressed")
}

#[test]
fn few_entries_are_read_and_too_many_are_not() {
    let places = [address(1, 0x10), address(1, 0x20)];
    let few = shared_ranges(20);
    let frames = lookup(&gather(&few), &places, &mut Fuel::default());
    assert_eq!(frames[0][0].function.as_deref(), Some("f"));
    assert!(frames[1].is_empty());
    // The budget ends the work: with almost no fuel nothing is found.
    assert!(lookup(&gather(&few), &places, &mut Fuel::new(100))[0].is_empty());

    let many = shared_ranges(200_000);
    let start = Instant::now();
    let frames = lookup(&gather(&many), &places, &mut Fuel::default());
    assert!(start.elapsed() < Duration::from_secs(60), "4e10 steps were to be cut");
    assert!(frames[1].is_empty());
}

#[test]
fn sections_that_lie_about_their_size_are_refused() {
    let mut stream = vec![1, 0, 0, 0, 0, 0, 0, 0];
    stream.extend(u64::MAX.to_le_bytes());
    stream.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    stream.extend([0x78, 0x9c, 0x03, 0, 0, 0, 0, 1]);
    for data in [stream.clone(), stream[..20].to_vec(), vec![9; 40]] {
        let raw = Raw { name: b".debug_info", data: &data, compressed: true, grouped: false, relocations: Vec::new() };
        assert!(Sections::gather([raw], |_| None).is_err());
    }
}

/// Zeros shrink to a thousandth. 260 KB of them would become 256 MB in the host.
#[test]
fn compressed_sections_grow_by_a_bounded_factor() {
    use std::io::Write;
    let compressed = |size: usize, claimed: u64| {
        let mut data = [&1u32.to_le_bytes()[..], &[0; 4], &claimed.to_le_bytes(), &1u64.to_le_bytes()].concat();
        let mut encoder = flate2::write::ZlibEncoder::new(&mut data, flate2::Compression::best());
        encoder.write_all(&vec![0; size]).and_then(|()| encoder.try_finish()).expect("compressed");
        drop(encoder);
        data
    };
    let gathered = |names: &[&str], data: &[u8]| {
        let raw = names.iter().map(|name| Raw {
            name: name.as_bytes(),
            data,
            compressed: true,
            grouped: false,
            relocations: Vec::new(),
        });
        Sections::gather(raw, |_| None).is_ok()
    };
    assert!(gathered(&[".debug_info"], &compressed(32 << 10, 32 << 10)));
    assert!(!gathered(&[".debug_info"], &compressed(16 << 20, 16 << 20)));
    // Small sections share one allowance.
    let small = compressed(60 << 10, 60 << 10);
    assert!(gathered(&[".debug_info"], &small));
    assert!(!gathered(&[".debug_info", ".debug_line", ".debug_str"], &small));
    // A header that lies gets at most the size that it claims.
    assert!(gathered(&[".debug_info"], &compressed(16 << 20, 32 << 10)));
    assert!(!gathered(&[".debug_info"], &compressed(10, u64::MAX)));
    let zeros = zstd(16 << 20, 32 << 10);
    assert!(zeros.len() < 1000 && gathered(&[".debug_info"], &zeros));
    assert!(!gathered(&[".debug_info"], &zstd(16 << 20, 16 << 20)));
    // The second section of a name is not read.
    let both = [&small[..], &[9; 40]].map(|data| Raw {
        name: b".debug_info",
        data,
        compressed: true,
        grouped: false,
        relocations: Vec::new(),
    });
    assert!(Sections::gather(both, |_| None).is_ok());
}

/// Returns a section of zeros as a stream of zstd, which claims another size (RFC 8878: a frame
/// without content size, and blocks that repeat a byte).
fn zstd(size: usize, claimed: u64) -> Vec<u8> {
    const BLOCK: usize = 128 << 10;
    /// `Window_Descriptor` of 1 MiB.
    const WINDOW: u8 = 10 << 3;
    let mut data = [&2u32.to_le_bytes()[..], &[0; 4], &claimed.to_le_bytes(), &1u64.to_le_bytes()].concat();
    data.extend([0x28, 0xb5, 0x2f, 0xfd, 0, WINDOW]);
    for left in (0..size.div_ceil(BLOCK)).rev() {
        let header = BLOCK << 3 | 1 << 1 | usize::from(left == 0);
        data.extend(&header.to_le_bytes()[..3]);
        data.push(0);
    }
    data
}
