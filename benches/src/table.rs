//! The table: a row a measured call, this library and the stock one side by side.
use crate::samples::Summary;
use crate::units::{Unit, digits};

/// What a row is to reach.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// Nothing: the row is there to be looked at.
    None,
    /// A median of at most that.
    AtMost(f64),
    /// A median of at most that, which itself was measured; the words say what it is made of.
    Measured(f64, String),
}

/// One measured call.
#[derive(Debug, Clone)]
pub struct Row {
    /// What was measured.
    pub label: String,
    /// What the numbers count.
    pub unit: Unit,
    /// What is to be reached.
    pub target: Target,
    /// Of this library.
    pub ours: Option<Summary>,
    /// Of the stock library.
    pub stock: Option<Summary>,
}

/// Rows under headings.
#[derive(Debug, Clone, Default)]
pub struct Table(Vec<(String, Vec<Row>)>);

const COLUMNS: [&str; 10] = ["", "instanton", "p99", "faults", "stock", "p99", "faults", "faster", "target", "reached"];

impl Table {
    /// Begins a part.
    pub fn section(&mut self, heading: impl Into<String>) {
        self.0.push((heading.into(), Vec::new()));
    }

    /// Adds a row to the newest part. One that nobody measured is left out.
    pub fn row(&mut self, row: Row) {
        if row.ours.is_some() || row.stock.is_some() {
            self.0.last_mut().expect("a section comes first").1.push(row);
        }
    }

    /// For a terminal.
    #[must_use]
    pub fn plain(&self) -> String {
        let cells: Vec<[String; 10]> = self.0.iter().flat_map(|(_, rows)| rows).map(cells).collect();
        let width = |column: usize| {
            let longest = cells.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
            longest.max(COLUMNS[column].len())
        };
        let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
        let line = |cells: &[String; 10]| {
            let first = format!("  {:<1$}", cells[0], widths[0]);
            let rest = cells.iter().zip(&widths).skip(1).map(|(cell, width)| format!("  {cell:>width$}"));
            std::iter::once(first).chain(rest).collect::<String>().trim_end().to_owned() + "\n"
        };
        let mut text = line(&COLUMNS.map(str::to_owned));
        let mut rows = cells.iter();
        for (heading, of_section) in self.0.iter().filter(|(_, rows)| !rows.is_empty()) {
            text += &format!("\n{heading}\n");
            text.extend(rows.by_ref().take(of_section.len()).map(line));
        }
        text
    }

    /// For a document.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = String::new();
        for (heading, rows) in self.0.iter().filter(|(_, rows)| !rows.is_empty()) {
            let mut columns = COLUMNS.map(str::to_owned);
            columns[0].clone_from(heading);
            text += &line(&columns);
            text += &format!("|---|{}\n", "--:|".repeat(COLUMNS.len() - 1));
            text.extend(rows.iter().map(|row| line(&cells(row))));
            text.push('\n');
        }
        text
    }

    /// How many rows have a target that this library reaches, and how many have one.
    #[must_use]
    pub fn reached(&self) -> (usize, usize) {
        let verdicts: Vec<bool> = self.0.iter().flat_map(|(_, rows)| rows).filter_map(reached).collect();
        (verdicts.iter().filter(|reached| **reached).count(), verdicts.len())
    }
}

fn reached(row: &Row) -> Option<bool> {
    match row.target {
        Target::None => None,
        Target::AtMost(limit) | Target::Measured(limit, _) => Some(row.ours?.median <= limit),
    }
}

fn cells(row: &Row) -> [String; 10] {
    let of = |summary: Option<Summary>| match summary {
        None => ["-".to_owned(), "-".to_owned(), "-".to_owned()],
        Some(summary) => [
            row.unit.show(summary.median),
            row.unit.show(summary.p99),
            // What the clock's own noise faults in is none of the call's.
            if summary.faults < 0.05 { "-".to_owned() } else { format!("{:.1}", summary.faults) },
        ],
    };
    let ratio = row.stock.zip(row.ours).filter(|(_, ours)| ours.median > 0.0);
    let ratio = ratio.map_or("-".to_owned(), |(stock, ours)| format!("{} x", digits(stock.median / ours.median)));
    let target = match &row.target {
        Target::None => "-".to_owned(),
        Target::AtMost(limit) => row.unit.show(*limit),
        Target::Measured(limit, words) => format!("{words}: {}", row.unit.show(*limit)),
    };
    let reached = reached(row).map_or("-", |reached| if reached { "yes" } else { "no" });
    let ([ours, ours_p99, ours_faults], [stock, stock_p99, stock_faults]) = (of(row.ours), of(row.stock));
    let label = row.label.clone();
    [label, ours, ours_p99, ours_faults, stock, stock_p99, stock_faults, ratio, target, reached.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(median: f64) -> Option<Summary> {
        Some(Summary { median, p99: 2.0 * median, faults: 0.0 })
    }

    fn table() -> Table {
        let mut table = Table::default();
        table.section("Get");
        let row = Row {
            label: "job".into(),
            unit: Unit::Time,
            target: Target::AtMost(0.1),
            ours: summary(0.05),
            stock: summary(10.0),
        };
        table.row(Row {
            label: "one µs".into(),
            target: Target::Measured(0.04, "floor".into()),
            stock: None,
            ..row.clone()
        });
        table.row(Row { label: "nobody".into(), ours: None, stock: None, ..row.clone() });
        table.row(row);
        table.section("nothing in it");
        table
    }

    #[test]
    fn columns_line_up() {
        let text = table().plain();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert_eq!(lines[2], "Get");
        let ends = |line: &str| line.chars().count();
        assert_eq!(
            ends(lines[0]),
            ends("  one µs  instanton     p99  faults    stock      p99  faults  faster          target  reached")
        );
        assert!(lines[4].ends_with("100 ns      yes"), "{text}");
        assert!(lines[3].ends_with("floor: 40.0 ns       no"), "{text}");
    }

    #[test]
    fn ratios_and_targets_are_counted() {
        let markdown = table().markdown();
        assert!(
            markdown.contains("| job | 50.0 ns | 100 ns | - | 10.0 µs | 20.0 µs | - | 200 x | 100 ns | yes |"),
            "{markdown}"
        );
        assert!(!markdown.contains("nobody") && !markdown.contains("nothing"), "{markdown}");
        assert_eq!(table().reached(), (1, 2));
    }
}
