//! Samples that the measuring programs print, and the few numbers they are reduced to.
use std::collections::BTreeMap;

/// The measured values of every row that some programs printed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples(BTreeMap<String, Row>);

#[derive(Debug, Clone, Default, PartialEq)]
struct Row {
    values: Vec<f64>,
    faults: u64,
}

/// One row in three numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Half of the values are not above it.
    pub median: f64,
    /// 99 of 100 values are not above it.
    pub p99: f64,
    /// Page faults a sample, on average.
    pub faults: f64,
}

/// A line that is no sample.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a sample: {0:?}")]
pub struct NotASample(pub String);

impl Samples {
    /// Adds one value.
    pub fn push(&mut self, row: &str, value: f64, faults: u64) {
        let row = self.0.entry(row.to_owned()).or_default();
        row.values.push(value);
        row.faults += faults;
    }

    /// Adds what a program printed, with `prefix` in front of its rows' names.
    ///
    /// # Errors
    /// The first line that is not `ROW <tab> VALUE <tab> FAULTS`.
    pub fn read(&mut self, prefix: &str, output: &str) -> Result<(), NotASample> {
        for line in output.lines() {
            let (row, value, faults) = parse(line).ok_or_else(|| NotASample(line.to_owned()))?;
            self.push(&format!("{prefix}{row}"), value, faults);
        }
        Ok(())
    }

    /// Returns the names of rows that begin with `prefix`, without it, in order.
    #[must_use]
    pub fn rows(&self, prefix: &str) -> Vec<String> {
        self.0.keys().filter_map(|row| row.strip_prefix(prefix)).map(str::to_owned).collect()
    }

    /// A row's numbers; none if nobody printed it.
    #[must_use]
    pub fn summary(&self, row: &str) -> Option<Summary> {
        let row = self.0.get(row)?;
        let mut sorted = row.values.clone();
        sorted.sort_by(f64::total_cmp);
        Some(Summary {
            median: quantile(&sorted, 0.5),
            p99: quantile(&sorted, 0.99),
            faults: row.faults as f64 / sorted.len() as f64,
        })
    }
}

fn parse(line: &str) -> Option<(&str, f64, u64)> {
    let mut fields = line.split('\t');
    let sample = (fields.next()?, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (fields.next().is_none() && !sample.0.is_empty()).then_some(sample)
}

/// The smallest of the values that at least the share `q` of them is not above (nearest rank). `sorted` is not empty.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&hundred, 0.5), 50.0);
        assert_eq!(quantile(&hundred, 0.99), 99.0);
        assert_eq!(quantile(&hundred, 1.0), 100.0);
        assert_eq!(quantile(&hundred, 0.0), 1.0);
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.5), 1.0);
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), 2.0);
    }

    #[test]
    fn lines_of_several_processes_become_one_row() {
        let mut samples = Samples::default();
        samples.read("2/", "get\t3.0\t1\nget\t1.0\t0\n").expect("good lines");
        samples.read("2/", "get\t2.0\t2\n").expect("good lines");
        assert_eq!(samples.summary("2/get"), Some(Summary { median: 2.0, p99: 3.0, faults: 1.0 }));
        assert_eq!(samples.summary("get"), None);
    }

    #[test]
    fn other_lines_are_refused_by_name() {
        for line in ["", "get", "get\t1.0", "get\tx\t0", "get\t1.0\t-1", "\t1.0\t0", "get\t1.0\t0\t0"] {
            let refused = Samples::default().read("", &format!("{line}\n"));
            assert_eq!(refused, Err(NotASample(line.to_owned())));
        }
    }
}
