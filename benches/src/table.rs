//! The table: a row a measured call, this library and the stock one side by side.
use crate::grid;
use crate::samples::Summary;
use crate::units::{Unit, digits};

/// Target of a row.
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
    /// Name of the measured call.
    pub label: String,
    /// Unit of the numbers.
    pub unit: Unit,
    /// The target.
    pub target: Target,
    /// Samples of this library.
    pub ours: Option<Summary>,
    /// Samples of the stock library.
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

    /// Adds a row to the newest part.
    ///
    /// # Panics
    /// When there is none.
    pub fn row(&mut self, row: Row) {
        self.0.last_mut().expect("a section comes first").1.push(row);
    }

    /// For a terminal.
    #[must_use]
    pub fn plain(&self) -> String {
        grid::plain(&COLUMNS, &self.rows())
    }

    /// For a document.
    #[must_use]
    pub fn markdown(&self) -> String {
        grid::markdown(&COLUMNS, &self.rows())
    }

    /// The rows that miss their target, in words.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let rows = self.0.iter().flat_map(|(heading, rows)| rows.iter().map(move |row| (heading, row)));
        let missed = rows.filter(|(_, row)| reached(row) == Some(false));
        let words = |(heading, row): (&String, &Row)| {
            let cells = cells(row);
            format!("{heading}: {}: {}, target {}", row.label, cells[1], cells[8])
        };
        missed.map(words).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.0
            .iter()
            .flat_map(|(heading, rows)| std::iter::once(vec![heading.clone()]).chain(rows.iter().map(cells)))
            .collect()
    }

    /// Returns the number of rows whose target this library reaches, and the number of rows with a target.
    #[must_use]
    pub fn reached(&self) -> (usize, usize) {
        let verdicts: Vec<bool> = self.0.iter().flat_map(|(_, rows)| rows).filter_map(reached).collect();
        (verdicts.iter().filter(|reached| **reached).count(), verdicts.len())
    }
}

fn reached(row: &Row) -> Option<bool> {
    match row.target {
        Target::None => None,
        Target::AtMost(limit) | Target::Measured(limit, _) => Some(row.ours.is_some_and(|ours| ours.median <= limit)),
    }
}

fn cells(row: &Row) -> Vec<String> {
    let of = |summary: Option<Summary>| match summary {
        None => ["-".to_owned(), "-".to_owned(), "-".to_owned()],
        Some(summary) => [
            row.unit.show(summary.median),
            row.unit.show(summary.p99),
            // Page faults of the clock's own noise are none of the call's.
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
    let mut cells = vec![row.label.clone()];
    cells.extend(of(row.ours).into_iter().chain(of(row.stock)));
    cells.extend([ratio, target, reached.to_owned()]);
    cells
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
        table.row(Row { label: "nobody".into(), ours: None, ..row.clone() });
        table.row(row);
        table
    }

    #[test]
    fn ratios_and_targets_are_counted() {
        let markdown = table().markdown();
        assert!(
            markdown.contains("| job | 50.0 ns | 100 ns | - | 10.0 µs | 20.0 µs | - | 200 x | 100 ns | yes |"),
            "{markdown}"
        );
        assert!(
            markdown.contains("| one µs | 50.0 ns | 100 ns | - | - | - | - | - | floor: 40.0 ns | no |"),
            "{markdown}"
        );
        assert!(markdown.contains("| nobody | - | - | - | 10.0 µs | 20.0 µs | - | - | 100 ns | no |"), "{markdown}");
        assert_eq!(table().reached(), (1, 3));
        assert_eq!(table().missed()[0], "Get: one µs: 50.0 ns, target floor: 40.0 ns");
    }
}
