//! The header and the list of exports against their table, and against the library's own version.
#[path = "../header/generate.rs"]
#[allow(dead_code, reason = "the example uses the rest")]
mod generate;

#[test]
fn they_are_what_the_table_gives() {
    let hint = "cargo run -p instanton-store-capi --example store-header writes them";
    assert!(include_str!("../include/instanton_store.h") == generate::header(), "{hint}");
    assert!(include_str!("../exports.txt") == generate::exports(), "{hint}");
}

#[test]
fn every_function_says_which_threads_may_call_it() {
    for entry in generate::section("functions") {
        let rules = entry.below.iter().filter(|line| line.starts_with("Thread: ")).count();
        assert!(rules == 1 && entry.below.len() == 2, "{}", entry.head);
    }
}
