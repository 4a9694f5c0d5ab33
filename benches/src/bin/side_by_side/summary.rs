//! The beginning of docs/PERFORMANCE.md: five lines and one picture of what the table says at length.
use instanton_benches::chart::{Pair, bars};
use instanton_benches::samples::Summary;
use instanton_benches::units::Unit::{Memory, Time};

use crate::measure::Measured;

/// Times of the table that are shown: words, words in the picture, row.
const TIMES: [(&str, &str, &str); 5] = [
    ("`PMIx_Get` of the size of the job", "Get of the job's size", "8/get job"),
    ("`PMIx_Get` of 64 bytes that a peer has posted", "Get of 64 bytes of a peer", "8/get 64"),
    ("`PMIx_Fence` of 32 processes", "Fence of 32 processes", "32/fence"),
    ("Start of 32 processes, until all are through `PMIx_Init`", "Start of 32 processes", "start 32/init of all"),
    ("Registering a job of 100,000 ranks", "Registering 100,000 ranks", "keys/register"),
];
/// Row of the memory that the last of them adds to the server.
const GROWS: &str = "keys/server grows";

fn both(measured: &Measured, row: &str) -> Option<(Summary, Summary)> {
    Some((measured.ours.summary(row)?, measured.stock.summary(row)?))
}

/// A list of what was measured with both libraries.
pub fn lines(measured: &Measured) -> String {
    let line = |(words, _, row): (&str, &str, &str)| {
        let (ours, stock) = both(measured, row)?;
        let (shown, other) = (Time.show(ours.median), Time.show(stock.median));
        let grows = both(measured, GROWS).filter(|_| GROWS.split('/').next() == row.split('/').next());
        let grows = grows.map(|(ours, stock)| {
            format!("; it adds **{}** to the server, stock {}", Memory.show(ours.median), Memory.show(stock.median))
        });
        let factor = stock.median / ours.median;
        Some(format!(
            "- {words}: **{shown}**, stock {other}, {factor:.0} times as long{}.\n",
            grows.unwrap_or_default()
        ))
    };
    TIMES.into_iter().filter_map(line).collect()
}

/// The times of the list as bars.
///
/// # Errors
/// Where nothing was measured with both libraries.
pub fn picture(measured: &Measured) -> anyhow::Result<String> {
    let pair = |(_, name, row): (&str, &str, &str)| {
        let (ours, stock) = both(measured, row)?;
        Some(Pair { name: name.to_owned(), ours: ours.median, stock: stock.median })
    };
    let pairs: Vec<Pair> = TIMES.into_iter().filter_map(pair).collect();
    bars("Times of this library and of the stock one", &pairs).map_err(anyhow::Error::from_boxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_with_both_is_shown() {
        let mut measured = Measured::default();
        measured.ours.push("8/get job", 0.035, 0);
        measured.ours.push("keys/register", 47.7e3, 0);
        measured.ours.push("keys/server grows", 1.26e6, 0);
        assert!(lines(&measured).is_empty() && picture(&measured).is_err());
        measured.stock.push("8/get job", 56.5, 0);
        measured.stock.push("keys/register", 1.12e6, 0);
        measured.stock.push("keys/server grows", 265e6, 0);
        assert_eq!(
            lines(&measured),
            "- `PMIx_Get` of the size of the job: **35.0 ns**, stock 56.5 µs, 1614 times as long.\n\
             - Registering a job of 100,000 ranks: **47.7 ms**, stock 1.12 s, 23 times as long; it adds **1.26 MB** to \
             the server, stock 265 MB.\n"
        );
        assert!(picture(&measured).unwrap().contains("Get of the job&apos;s size"));
    }
}
