//! Known answers, in a domain: RFC 1071, RFC 8439, the check values of the CRCs.

mod support;

use sfi_dilp::{Options, Pipe, Sink, Transfer, builtin};
use support::{Call, Domain, MODES, features};

/// Calls the body with a composition in a domain, for each mode and each set of extensions.
fn everywhere(pipes: &[Pipe], mut body: impl FnMut(&mut Domain)) {
    for mode in MODES {
        for features in features() {
            let options = Options { mode, features, sink: Sink::Store, budget: false };
            let transfer = Transfer::compose("transfer", pipes, &options).unwrap();
            body(&mut Domain::new(mode, [&transfer]).unwrap());
        }
    }
}

fn send(domain: &mut Domain, registers: &mut [u64], source: &[u8]) -> Vec<u8> {
    domain.run("transfer", [0, 0], registers, source, source.len()).unwrap()
}

#[test]
fn crcs_have_their_check_values() {
    for (pipe, check, thirty_two_zeros) in
        [(builtin::crc32(), 0xcbf4_3926, 0x190a_55ad), (builtin::crc32c(), 0xe306_9283, 0x8a91_36aa)]
    {
        everywhere(&[pipe], |domain| {
            for (text, crc) in [(&b"123456789"[..], check), (&[0; 32], thirty_two_zeros), (b"", 0)] {
                let mut registers = [0xffff_ffff];
                assert_eq!(send(domain, &mut registers, text), text);
                assert_eq!(!registers[0] as u32, crc, "{text:?}");
            }
        });
    }
}

/// The CRC of a million bytes `a`, by zlib.
#[test]
fn the_crc_of_a_long_message_goes_on_from_transfer_to_transfer() {
    everywhere(&[builtin::crc32()], |domain| {
        let mut registers = [0xffff_ffff];
        for _ in 0..10 {
            send(domain, &mut registers, &vec![b'a'; 100_000]);
        }
        assert_eq!(!registers[0] as u32, 0xdc25_bfbc);
    });
}

#[test]
fn the_checksum_is_that_of_rfc_1071() {
    // Section 3 of the RFC, and an IPv4 header whose checksum field is 0xb861.
    let header = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00,
        0xc7,
    ];
    everywhere(&[builtin::checksum()], |domain| {
        let mut sum = [0];
        send(domain, &mut sum, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!((sum[0] as u16).swap_bytes(), 0xddf2);
        let mut sum = [0];
        send(domain, &mut sum, &header);
        assert_eq!(!(sum[0] as u16).swap_bytes(), 0xb861);
        // An odd byte counts as if a zero followed.
        let mut sum = [0];
        send(domain, &mut sum, &[0x00, 0x01, 0xf2]);
        assert_eq!((sum[0] as u16).swap_bytes(), 0xf201);
        // All zeros have the sum 0, and words of ones have the other zero.
        for (byte, expected) in [(0, 0), (0xff, 0xffff)] {
            let mut sum = [0];
            send(domain, &mut sum, &[byte; 1000]);
            assert_eq!(sum[0], expected);
        }
    });
}

#[test]
fn the_cipher_is_that_of_rfc_8439() {
    // Section 2.4.2.
    let text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
                 sunscreen would be it.";
    let cipher: [u8; 114] = [
        0x6e, 0x2e, 0x35, 0x9a, 0x25, 0x68, 0xf9, 0x80, 0x41, 0xba, 0x07, 0x28, 0xdd, 0x0d, 0x69, 0x81, 0xe9, 0x7e,
        0x7a, 0xec, 0x1d, 0x43, 0x60, 0xc2, 0x0a, 0x27, 0xaf, 0xcc, 0xfd, 0x9f, 0xae, 0x0b, 0xf9, 0x1b, 0x65, 0xc5,
        0x52, 0x47, 0x33, 0xab, 0x8f, 0x59, 0x3d, 0xab, 0xcd, 0x62, 0xb3, 0x57, 0x16, 0x39, 0xd6, 0x24, 0xe6, 0x51,
        0x52, 0xab, 0x8f, 0x53, 0x0c, 0x35, 0x9f, 0x08, 0x61, 0xd8, 0x07, 0xca, 0x0d, 0xbf, 0x50, 0x0d, 0x6a, 0x61,
        0x56, 0xa3, 0x8e, 0x08, 0x8a, 0x22, 0xb6, 0x5e, 0x52, 0xbc, 0x51, 0x4d, 0x16, 0xcc, 0xf8, 0x06, 0x81, 0x8c,
        0xe9, 0x1a, 0xb7, 0x79, 0x37, 0x36, 0x5a, 0xf9, 0x0b, 0xbf, 0x74, 0xa3, 0x5b, 0xe6, 0xb4, 0x0b, 0x8e, 0xed,
        0xf2, 0x78, 0x5e, 0x42, 0x87, 0x4d,
    ];
    let key: Vec<u64> = (0..8).map(|n| u64::from(u32::from_le_bytes([0, 1, 2, 3].map(|b| 4 * n + b)))).collect();
    let registers = [&key[..], &[1, 0, 0x4a00_0000, 0]].concat();
    everywhere(&[builtin::chacha20()], |domain| {
        let mut own = registers.clone();
        assert_eq!(send(domain, &mut own, text), cipher);
        assert_eq!(own[8], 3, "two blocks were used");
        own[8] = 1;
        assert_eq!(send(domain, &mut own, &cipher), text);
        // Two transfers are one if the first ends with a block. The counter wraps at 32 bits.
        let long = vec![0; 5000];
        let (mut one, mut two) = (registers.clone(), registers.clone());
        (one[8], two[8]) = (0xffff_fff0, 0xffff_fff0);
        let whole = send(domain, &mut one, &long);
        let parts = [send(domain, &mut two, &long[..64 * 7]), send(domain, &mut two, &long[64 * 7..])].concat();
        assert_eq!((whole, one), (parts, two));
    });
}

#[test]
fn source_and_destination_may_be_equal() {
    let pipes = builtin::chain("checksum | xor32 | swap16 | crc32 | chacha20").unwrap();
    everywhere(&pipes, |domain| {
        let source: Vec<u8> = (0..1001_u32).map(|n| (n * 7) as u8).collect();
        let registers: Vec<u64> = (1..16).collect();
        let expected = sfi_dilp::interpret(&pipes, &mut registers.clone(), &source);
        let [place, _, kept] = domain.places();
        let words: Vec<u8> = registers.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut memory = domain.world.memory("dilp").unwrap();
        memory.write(place, &source).unwrap();
        memory.write(kept, &words).unwrap();
        let call: Call = domain.world.domain("dilp").unwrap().export("transfer").unwrap();
        call.call(&mut domain.world, (place, place, 1001, kept)).unwrap();
        assert_eq!(domain.world.memory("dilp").unwrap().read(place, 1001).unwrap(), expected);
    });
}

#[test]
fn a_short_word_is_as_wide_as_the_key_stream_after_the_cipher() {
    let texts = ["pipe zero\ngauge 32\nout = less.16 in in", "pipe tap\ngauge 32\nkeep k 16\nk = shr.16 in 13"];
    let [zero, tap] = texts.map(|text| Pipe::parse(text).unwrap());
    let pipes = [zero, builtin::chacha20(), tap];
    let mut expected: Vec<u64> = (1..14).collect();
    let out = sfi_dilp::interpret(&pipes, &mut expected, &[7; 8]);
    everywhere(&pipes, |domain| {
        let mut registers: Vec<u64> = (1..14).collect();
        assert_eq!((send(domain, &mut registers, &[7; 8]), registers), (out.clone(), expected.clone()));
    });
}
