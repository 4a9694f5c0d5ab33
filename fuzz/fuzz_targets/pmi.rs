#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    instanton_fuzz::is_pmi(bytes);
});
