//! Rows and columns of words, for a terminal and for a document.
//!
//! A row of one cell is a heading: what follows stands under it. The first column is aligned to the left, the others to
//! the right.

/// Columns that line up.
#[must_use]
pub fn plain(columns: &[&str], rows: &[Vec<String>]) -> String {
    let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    let full = || std::iter::once(&columns).chain(rows.iter().filter(|row| row.len() > 1));
    let width = |column: usize| full().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |cells: &Vec<String>| match cells.as_slice() {
        [heading] => format!("\n{heading}\n"),
        [first, rest @ ..] => {
            let rest = rest.iter().zip(&widths[1..]).map(|(cell, width)| format!("  {cell:>width$}"));
            let line = format!("  {first:<0$}{1}", widths[0], rest.collect::<String>());
            line.trim_end().to_owned() + "\n"
        }
        [] => "\n".to_owned(),
    };
    std::iter::once(&columns).chain(rows).map(line).collect()
}

/// A table in Markdown for each heading, under it.
#[must_use]
pub fn markdown(columns: &[&str], rows: &[Vec<String>]) -> String {
    let header = format!("| {} |\n|---|{}\n", columns.join(" | "), "--:|".repeat(columns.len() - 1));
    let mut text = String::new();
    for (i, row) in rows.iter().enumerate() {
        text += &match row.as_slice() {
            [heading] => format!("{}### {heading}\n\n{header}", if i == 0 { "" } else { "\n" }),
            cells => format!("{}| {} |\n", if i == 0 { &header } else { "" }, cells.join(" | ")),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        vec![row(&["Part"]), row(&["a", "1 µs", "yes"]), row(&["longer", "2", "-"])]
    }

    #[test]
    fn columns_line_up_whatever_the_letters() {
        let expected = "          time  good\n\nPart\n  a       1 µs   yes\n  longer     2     -\n";
        assert_eq!(plain(&["", "time", "good"], &rows()), expected);
    }

    #[test]
    fn a_heading_begins_a_table() {
        let table = "| x | t | g |\n|---|--:|--:|\n| a | 1 µs | yes |\n| longer | 2 | - |\n";
        assert_eq!(markdown(&["x", "t", "g"], &rows()), format!("### Part\n\n{table}"));
        assert_eq!(markdown(&["x", "t", "g"], &rows()[1..]), table);
    }
}
