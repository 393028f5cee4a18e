#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sfi_tests::target::rewriter(bytes));
