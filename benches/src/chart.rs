//! A line chart on two logarithmic axes, as an SVG that reads well on light and on dark pages.
use std::fmt::Write as _;

use crate::units::{Unit, count};

/// One line of a chart.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name, shown in the legend.
    pub name: String,
    /// Points from left to right; all above zero.
    pub points: Vec<(f64, f64)>,
}

/// A chart of some cost against a count.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Caption of the horizontal axis.
    pub across: String,
    /// The horizontal axis shows its powers.
    pub base: u32,
    /// Unit of the vertical axis.
    pub unit: Unit,
    /// The lines.
    pub series: Vec<Series>,
}

/// Colours of the lines, in pairs of a hue. Middling tones stand out from white and from black.
const STYLES: [(&str, &str); 8] = [
    ("#d1742f", "none"),
    ("#d1742f", "6 4"),
    ("#2f81f7", "none"),
    ("#2f81f7", "6 4"),
    ("#2da067", "none"),
    ("#2da067", "6 4"),
    ("#a371f7", "none"),
    ("#a371f7", "6 4"),
];
const INK: &str = "#808890";
/// The picture, and the rectangle of it that the axes span.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 524.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 384.0;

/// A logarithmic axis over whole powers of a base.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Axis {
    base: f64,
    low: i32,
    high: i32,
    /// Place of `low` in the picture.
    from: f64,
    /// Place of `high` in the picture.
    to: f64,
}

impl Axis {
    fn over(base: u32, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let base = f64::from(base);
        let (mut low, mut high) = (i32::MAX, i32::MIN);
        for log in values.map(|value| value.log(base)) {
            // A power of the base is one in spite of rounding.
            let log = if (log - log.round()).abs() < 1e-9 { log.round() } else { log };
            low = low.min(log.floor() as i32);
            high = high.max(log.ceil() as i32);
        }
        if low > high {
            (low, high) = (0, 1); // Nothing to show.
        }
        Self { base, low, high: high.max(low + 1), from, to }
    }

    fn place(self, value: f64) -> f64 {
        let share = (value.log(self.base) - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + share * (self.to - self.from)
    }

    fn powers(self) -> impl Iterator<Item = f64> {
        (self.low..=self.high).map(move |power| self.base.powi(power))
    }
}

impl Chart {
    /// The picture.
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = Axis::over(self.base, points().map(|point| point.0), LEFT, RIGHT);
        let y = Axis::over(10, points().map(|point| point.1), BOTTOM, TOP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"13\" fill=\"{INK}\">\n"
        );
        text(&mut svg, LEFT, 26.0, "start", &self.title, " font-size=\"16\"");
        text(&mut svg, (LEFT + RIGHT) / 2.0, BOTTOM + 44.0, "middle", &self.across, "");
        for value in x.powers() {
            line(&mut svg, (x.place(value), TOP), (x.place(value), BOTTOM));
            text(&mut svg, x.place(value), BOTTOM + 20.0, "middle", &count(value as u64), "");
        }
        for value in y.powers() {
            line(&mut svg, (LEFT, y.place(value)), (RIGHT, y.place(value)));
            text(&mut svg, LEFT - 8.0, y.place(value) + 4.0, "end", &power_of_ten(self.unit, value), "");
        }
        for (i, (series, (colour, dashes))) in self.series.iter().zip(STYLES.iter().cycle()).enumerate() {
            let stroke =
                format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\" stroke-dasharray=\"{dashes}\"");
            let mut path = String::new();
            for (x, y) in series.points.iter().map(|point| (x.place(point.0), y.place(point.1))) {
                let _ = write!(path, "{x:.1},{y:.1} ");
                let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>");
            }
            let _ = writeln!(svg, "<polyline points=\"{}\" {stroke}/>", path.trim_end());
            let legend = TOP + 12.0 + 24.0 * i as f64;
            let _ =
                writeln!(svg, "<polyline points=\"{},{legend} {},{legend}\" {stroke}/>", RIGHT + 18.0, RIGHT + 46.0);
            text(&mut svg, RIGHT + 54.0, legend + 4.0, "start", &series.name, "");
        }
        svg + "</svg>\n"
    }
}

/// At an axis, without the digits behind the point that a measured value has.
fn power_of_ten(unit: Unit, value: f64) -> String {
    unit.show(value).replace(".00", "").replace(".0", "")
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{INK}\" stroke-opacity=\"0.3\"/>"
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str, more: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{more}>{words}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_spans_whole_powers_of_ten() {
        let axis = Axis::over(10, [20.0, 3000.0].into_iter(), 0.0, 300.0);
        assert_eq!((axis.low, axis.high), (1, 4));
        assert_eq!(axis.place(10.0), 0.0);
        assert_eq!(axis.place(10_000.0), 300.0);
        assert!((axis.place(1000.0) - 200.0).abs() < 1e-9);
        // One value, a power of ten itself, still spans something; no value at all does not matter.
        assert_eq!(Axis::over(10, [100.0].into_iter(), 0.0, 1.0).high, 3);
        assert_eq!(Axis::over(10, [].into_iter(), 0.0, 1.0).high, 1);
        let cores = Axis::over(2, [1.0, 2.0, 8.0].into_iter(), 0.0, 300.0);
        assert_eq!((cores.low, cores.high), (0, 3));
        assert_eq!(cores.powers().collect::<Vec<_>>(), [1.0, 2.0, 4.0, 8.0]);
    }

    #[test]
    fn a_picture_has_all_points_within_its_axes() {
        let series = Series { name: "a < b & c".into(), points: vec![(1000.0, 0.5), (1_000_000.0, 80.0)] };
        let chart =
            Chart { title: "t".into(), across: "ranks".into(), base: 10, unit: Unit::Time, series: vec![series] };
        let svg = chart.svg();
        assert!(svg.contains("a &lt; b &amp; c"));
        assert!(svg.contains("1,000,000"));
        let places = svg.match_indices("<circle cx=\"").map(|(at, found)| {
            let rest = &svg[at + found.len()..];
            rest[..rest.find('"').expect("a quote")].parse::<f64>().expect("a number")
        });
        let places: Vec<f64> = places.collect();
        assert_eq!(places, [LEFT, RIGHT]);
    }

    #[test]
    fn axes_show_round_numbers() {
        assert_eq!(power_of_ten(Unit::Time, 100.0), "100 µs");
        assert_eq!(power_of_ten(Unit::Time, 10_000.0), "10 ms");
        assert_eq!(power_of_ten(Unit::Memory, 1.0), "1 B");
    }
}
