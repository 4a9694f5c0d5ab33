//! Numbers with the unit in which a person reads them best.

/// Unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds.
    Time,
    /// Bytes.
    Memory,
    /// Times a second.
    Rate,
}

impl Unit {
    /// Three significant digits in a unit that keeps them short.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        let steps: &[(f64, &str)] = match self {
            Unit::Time => &[(1e6, "s"), (1e3, "ms"), (1.0, "µs"), (1e-3, "ns")],
            Unit::Memory => &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")],
            Unit::Rate => &[(1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")],
        };
        // The last digit may round a number up into the next unit: 999.7 ns are 1.00 µs.
        let (step, name) = steps.iter().find(|(step, _)| value >= step * 0.9995).or(steps.last()).expect("steps");
        format!("{} {name}", digits(value / step))
    }
}

/// Three significant digits, at least; the whole part is never cut.
#[must_use]
pub fn digits(value: f64) -> String {
    match value.abs() {
        v if v == 0.0 || v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A count with its thousands apart: 1,000,000.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_in_the_unit_that_fits() {
        let shown = |us| Unit::Time.show(us);
        assert_eq!(shown(0.0312), "31.2 ns");
        assert_eq!(shown(0.1), "100 ns");
        assert_eq!(shown(0.9997), "1.00 µs");
        assert_eq!(shown(11.52), "11.5 µs");
        assert_eq!(shown(890_000.0), "890 ms");
        assert_eq!(shown(2_389_641.0), "2.39 s");
        assert_eq!(shown(0.0), "0 ns");
    }

    #[test]
    fn memory_comes_in_powers_of_ten() {
        assert_eq!(Unit::Memory.show(12.0), "12.0 B");
        assert_eq!(Unit::Memory.show(77_824.0), "77.8 kB");
        assert_eq!(Unit::Memory.show(1_070_297_088.0), "1.07 GB");
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(count(7), "7");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(123_456_789), "123,456,789");
    }
}
