//! The examples in C: vectoring, replies, and control initiation, each with what it does for good
//! messages and for wrong ones.

mod common;
use common::{Bench, MODES, addresses, compile, datagram, example, spec};
use sfi_ash::engine::Counts;
use sfi_ash::head::Head;
use sfi_ash::packet::Destination;
use sfi_loader::Mode;

fn bench(name: &str, mode: Mode) -> Bench {
    Bench::with(spec(name, compile(&example(&format!("{name}.c")), mode), mode))
}

#[test]
fn an_increment_from_afar() {
    for mode in MODES {
        let mut bench = bench("increment", mode);
        for (number, sum) in [(5_u64, 5_u64), (7, 12), (u64::MAX, 11)] {
            assert_eq!(bench.datagram(&number.to_le_bytes()), [sum.to_le_bytes()]);
        }
        assert_eq!(bench.state("increment", 8), 11_u64.to_le_bytes(), "the application sees the counter");
        assert_eq!(bench.datagram(b"short"), [[0; 0]; 0]);
        let normal = [("Declined".to_owned(), datagram(7777, b"short"))];
        assert_eq!(bench.app.normal, normal, "a wrong message goes the normal way");
        let counts = bench.engine.counts().next().unwrap();
        assert_eq!(
            counts,
            ("increment", Counts { messages: 4, committed: 3, declined: 1, sent: 3, ..Counts::default() })
        );
    }
}

#[test]
fn the_answer_is_a_right_datagram() {
    let mut bench = bench("increment", Mode::Write);
    let frames = bench.take(&datagram(7777, &1_u64.to_le_bytes()));
    let mut expected = Vec::new();
    let there = addresses(7777);
    let back =
        sfi_ash::packet::Datagram { from_mac: there.to_mac, to_mac: there.from_mac, from: there.to, to: there.from };
    back.write(&1_u64.to_le_bytes(), &mut expected).unwrap();
    assert_eq!(frames, [expected]);
    let head = Head::of(&frames[0]);
    assert_eq!((head.length(), head.payload()), (50, 42));
}

#[test]
fn a_write_from_afar() {
    let request =
        |offset: u32, length: u32, data: &[u8]| [&offset.to_le_bytes()[..], &length.to_le_bytes(), data].concat();
    for mode in MODES {
        let mut bench = bench("write", mode);
        assert_eq!(bench.datagram(&request(100, 5, b"hello")), [request(100, 5, b"")]);
        assert_eq!(&bench.segment("write", 4096)[98..107], b"\0\0hello\0\0");
        let whole: Vec<u8> = (0..4096).map(|i| (i % 251) as u8).collect();
        assert_eq!(bench.datagram(&request(0, 4096, &whole)).len(), 1);
        assert_eq!(bench.segment("write", 4096), whole);
        // Beyond the segment, beyond the message, around the end of numbers.
        for (offset, length) in [(4092, 5), (0, 6), (4097, 0), (u32::MAX, 5), (5, u32::MAX), (0, u32::MAX - 41)] {
            assert_eq!(bench.datagram(&request(offset, length, b"12345")), [[0; 0]; 0]);
        }
        assert_eq!(bench.segment("write", 4096), whole);
        assert_eq!(bench.app.normal.len(), 6);
        assert!(bench.app.normal.iter().all(|(reason, _)| reason == "Declined"));
    }
}

#[test]
fn a_matrix_row_by_row() {
    for mode in MODES {
        let mut bench = bench("vector", mode);
        let cell = |row: u32, column: u32| (row * 100 + column).to_le_bytes();
        let message = |row: u32| {
            let cells = (0..8).flat_map(|column| cell(row, column));
            row.to_le_bytes().into_iter().chain(cells).collect::<Vec<u8>>()
        };
        for (count, row) in [3, 0, 2, 1].into_iter().enumerate() {
            assert!(bench.app.wakes.is_empty(), "{count} rows");
            assert_eq!(bench.datagram(&message(row)), [[0; 0]; 0]);
        }
        assert_eq!(bench.app.wakes, [("vector".to_owned(), 4)]);
        let expected: Vec<u8> = (0..8).flat_map(|column| (0..4).flat_map(move |row| cell(row, column))).collect();
        assert_eq!(bench.segment("vector", 128), expected);
        bench.datagram(&message(4));
        assert_eq!((bench.app.normal.len(), bench.segment("vector", 128)), (1, expected));
    }
}

#[test]
fn locks_are_granted_or_left_to_the_application() {
    for mode in MODES {
        let mut bench = bench("lock", mode);
        let message = |lock: u32, take: u32| [lock.to_le_bytes(), take.to_le_bytes()].concat();
        let state = |bench: &Bench| {
            let state = bench.state("lock", 8);
            (state[0], state[4 + 3])
        };
        assert_eq!(bench.datagram(&message(3, 1)), [3_u32.to_le_bytes()]);
        assert_eq!(state(&bench), (1, 1));
        assert_eq!(bench.datagram(&message(3, 1)), [[0; 0]; 0], "somebody holds it");
        assert_eq!(bench.app.normal.len(), 1);
        assert_eq!(state(&bench), (1, 1), "the abort code mended the count");
        assert_eq!(bench.datagram(&message(3, 0)), [[0; 0]; 0]);
        assert_eq!(bench.app.wakes, [("lock".to_owned(), 3)]);
        assert_eq!(state(&bench), (2, 0));
        bench.datagram(&message(64, 1));
        assert_eq!(bench.app.normal.len(), 2);
    }
}

#[test]
fn an_answer_and_a_copy_to_the_next_station() {
    for mode in MODES {
        let to = Destination { mac: [2, 0, 0, 0, 0, 9], ip: "10.77.0.9".parse().unwrap(), port: 9000, from: 7777 };
        let object = compile(&example("forward.c"), mode);
        let mut bench = Bench::with(sfi_ash::handler::HandlerSpec {
            destinations: vec![to],
            ..spec("forward", object.clone(), mode)
        });
        let frames = bench.take(&datagram(7777, b"a parcel"));
        assert_eq!(frames.len(), 2);
        let mut expected = Vec::new();
        let leg = sfi_ash::packet::Datagram {
            from_mac: [2, 0, 0, 0, 0, 2],
            to_mac: to.mac,
            from: "10.77.0.2:7777".parse().unwrap(),
            to: "10.77.0.9:9000".parse().unwrap(),
        };
        leg.write(b"a parcel", &mut expected).unwrap();
        assert_eq!(frames[0], expected);
        assert_eq!(frames[1][42..], 8_u32.to_le_bytes());
        // Without the destination nothing leaves, not even the answer.
        let mut bench = Bench::with(spec("forward", object, mode));
        assert_eq!(bench.take(&datagram(7777, b"a parcel")), [[0; 0]; 0]);
        assert_eq!(bench.app.normal.len(), 1);
    }
}
