//! Tables for people: columns without lines, as wide as the terminal.
use std::io::{IsTerminal, stderr, stdout};
use std::os::fd::AsFd;

use comfy_table::{ContentArrangement, Table, presets};
use instanton::printable;

/// Width of a terminal that says none.
const WIDTH: u16 = 100;

/// The width to write in: that of `COLUMNS`, else of the terminal; none where nobody looks.
pub fn width() -> Option<u16> {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    let of = |terminal: &dyn Fn() -> Option<u16>| said.or_else(terminal).or(Some(WIDTH));
    match (stdout().is_terminal(), stderr().is_terminal()) {
        (true, _) => of(&|| terminal(&stdout())),
        (false, true) => of(&|| terminal(&stderr())),
        (false, false) => said,
    }
}

fn terminal(of: &impl AsFd) -> Option<u16> {
    terminal_size::terminal_size_of(of).map(|(width, _)| width.0)
}

/// Lays rows out below a header. Names of others may be in them: control characters are escaped, and so is everything
/// beyond ASCII where the locale has no more.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    match width {
        Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    for row in rows {
        table.add_row(row.iter().map(|cell| plain(cell)));
    }
    table.column_iter_mut().for_each(|column| _ = column.set_padding((0, 2)));
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// A text of others, as the terminal of this locale can show it.
pub fn plain(text: &str) -> String {
    shown(text, speaks_utf8())
}

fn shown(text: &str, is_utf8: bool) -> String {
    let text = printable(text);
    match is_utf8 || text.is_ascii() {
        true => text.into_owned(),
        false => text.chars().flat_map(|c| if c.is_ascii() { vec![c] } else { c.escape_default().collect() }).collect(),
    }
}

/// Returns whether the locale's characters are those of UTF-8.
fn speaks_utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| std::env::var(name).ok());
    let locale = set.into_iter().find(|value| !value.is_empty()).unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        vec![vec!["0-2".into(), "a fence".into()], vec!["3".into(), "a long text of many words\x1b[2J".into()]]
    }

    #[test]
    fn columns_are_as_wide_as_their_texts_and_nothing_stands_at_the_end() {
        assert_eq!(
            table(&["RANKS", "AT"], rows(), None),
            "RANKS  AT\n0-2    a fence\n3      a long text of many words\\u{1b}[2J\n"
        );
        assert!(table(&["RANKS", "AT"], rows(), Some(24)).lines().all(|line| line.len() <= 24));
    }

    #[test]
    fn a_locale_without_utf8_sees_ascii_alone() {
        assert_eq!((shown("größe", false), shown("größe", true)), ("gr\\u{f6}\\u{df}e".into(), "größe".into()));
    }
}
