//! Pictures of measurements, as SVG that reads well on light and on dark pages.
use std::error::Error;
use std::ops::Range;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::units::{Unit, count};

/// Error of drawing.
pub type Failure = Box<dyn Error + Send + Sync>;

/// One line of a chart.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name, shown in the legend.
    pub name: String,
    /// Points from left to right; all above zero.
    pub points: Vec<(f64, f64)>,
}

/// A chart of some cost against a count, on two logarithmic axes.
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

/// Two costs of one thing.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The thing.
    pub name: String,
    /// Cost with this library.
    pub ours: f64,
    /// Cost with the stock library.
    pub stock: f64,
}

/// Colours of lines, each for a solid and a dashed one. Middling tones stand out from white and from black.
const COLOURS: [RGBColor; 4] =
    [RGBColor(209, 116, 47), RGBColor(47, 129, 247), RGBColor(45, 160, 103), RGBColor(163, 113, 247)];
const INK: RGBColor = RGBColor(128, 136, 144);
const FONT: &str = "sans-serif";
const SIZE: f64 = 13.0;
/// Height of a line of the legend.
const LINE: i32 = 24;
/// Width of a character of the legend at most.
const CHARACTER: usize = 8;
/// Room for the legend's strokes.
const STROKE: u32 = 60;
const PLOT: (u32, u32) = (560, 440);

impl Chart {
    /// The picture.
    ///
    /// # Errors
    /// Where nothing is to be shown.
    pub fn svg(&self) -> Result<String, Failure> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = powers(self.base, points().map(|point| point.0)).ok_or("a chart without points")?;
        let y = powers(10, points().map(|point| point.1)).ok_or("a chart without points")?;
        let longest = self.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (PLOT.0 + STROKE + (longest * CHARACTER) as u32, PLOT.1));
            let (plot, legend) = area.into_drawing_area().split_horizontally(PLOT.0);
            let mut chart = ChartBuilder::on(&plot)
                .margin(8)
                .caption(&self.title, ink(16.0))
                .x_label_area_size(44)
                .y_label_area_size(76)
                .build_cartesian_2d(shown(x).log_scale().base(f64::from(self.base)), shown(y).log_scale())?;
            chart
                .configure_mesh()
                .axis_style(INK.mix(0.5))
                .bold_line_style(INK.mix(0.3))
                .light_line_style(TRANSPARENT)
                .label_style(ink(SIZE))
                .axis_desc_style(ink(SIZE))
                .x_desc(&self.across)
                .x_label_formatter(&|value| count(value.round() as u64))
                .y_label_formatter(&|value| power_of_ten(self.unit, *value))
                .draw()?;
            for (i, series) in self.series.iter().enumerate() {
                let (colour, points) = (COLOURS[i / 2 % COLOURS.len()], series.points.iter().copied());
                let at = LINE * i as i32 + 40;
                let stroke = |from, to| PathElement::new([(from, at), (to, at)], colour.stroke_width(2));
                match i % 2 {
                    0 => {
                        chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
                        legend.draw(&stroke(16, 44))?;
                    }
                    _ => {
                        chart.draw_series(DashedLineSeries::new(points.clone(), 6, 4, colour.stroke_width(2)))?;
                        legend.draw(&stroke(16, 28))?;
                        legend.draw(&stroke(32, 44))?;
                    }
                }
                chart.draw_series(points.map(|point| Circle::new(point, 3, colour.filled())))?;
                legend.draw(&Text::new(series.name.as_str(), (52, at), beside(HPos::Left)))?;
            }
            plot.present()?;
        }
        Ok(titled(svg, &self.title))
    }
}

/// Bars of pairs on one logarithmic axis of times; each pair says how much the one is faster.
///
/// # Errors
/// Where nothing is to be shown.
pub fn bars(title: &str, pairs: &[Pair]) -> Result<String, Failure> {
    let (left, right, height) = (250, 640, 52);
    let x = powers(10, pairs.iter().flat_map(|pair| [pair.ours, pair.stock])).ok_or("a chart without bars")?;
    let (low, high) = (x.start.log10(), x.end.log10());
    let place = |value: f64| left + ((value.log10() - low) / (high - low) * f64::from(right - left)) as i32;
    let mut svg = String::new();
    {
        let bottom = 44 + height * pairs.len() as i32;
        let area = SVGBackend::with_string(&mut svg, (800, bottom as u32 + 28)).into_drawing_area();
        area.draw(&Text::new(title, (8, 16), ink(16.0).pos(Pos::new(HPos::Left, VPos::Center))))?;
        for power in low as i32..=high as i32 {
            let (value, label) = (10f64.powi(power), beside(HPos::Center));
            let at = place(value);
            area.draw(&PathElement::new([(at, 36), (at, bottom)], INK.mix(0.3)))?;
            area.draw(&Text::new(power_of_ten(Unit::Time, value), (at, bottom + 14), label))?;
        }
        for (i, pair) in pairs.iter().enumerate() {
            let top = 44 + height * i as i32;
            area.draw(&Text::new(pair.name.as_str(), (left - 10, top + 20), beside(HPos::Right)))?;
            let times = format!("{} ({:.0} times faster)", Unit::Time.show(pair.ours), pair.stock / pair.ours);
            let stock = format!("{} stock", Unit::Time.show(pair.stock));
            for (at, value, colour, words) in
                [(top + 2, pair.ours, COLOURS[1], times), (top + 22, pair.stock, COLOURS[0], stock)]
            {
                let end = place(value).max(left + 2);
                area.draw(&Rectangle::new([(left, at), (end, at + 16)], colour.filled()))?;
                area.draw(&Text::new(words, (end + 6, at + 8), beside(HPos::Left)))?;
            }
        }
        area.present()?;
    }
    Ok(titled(svg, title))
}

/// The whole powers of a base that values lie between; none without values.
fn powers(base: u32, values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let base = f64::from(base);
    let (mut low, mut high) = (i32::MAX, i32::MIN);
    for log in values.map(|value| value.log(base)) {
        // A power of the base is one in spite of rounding.
        let log = if (log - log.round()).abs() < 1e-9 { log.round() } else { log };
        low = low.min(log.floor() as i32);
        high = high.max(log.ceil() as i32);
    }
    (low <= high).then(|| base.powi(low)..base.powi(high.max(low + 1)))
}

/// A range whose ends are labelled in spite of rounding.
fn shown(range: Range<f64>) -> Range<f64> {
    range.start * (1.0 - 1e-9)..range.end * (1.0 + 1e-9)
}

fn ink(size: f64) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

fn beside(horizontal: HPos) -> TextStyle<'static> {
    ink(SIZE).pos(Pos::new(horizontal, VPos::Center))
}

/// At an axis, without the digits behind the point that a measured value has.
fn power_of_ten(unit: Unit, value: f64) -> String {
    unit.show(value).replace(".00", "").replace(".0", "")
}

/// Adds a title for readers who hear a page.
fn titled(svg: String, title: &str) -> String {
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    let begin = svg.find("<svg").and_then(|begin| Some(begin + svg[begin..].find('>')? + 1)).unwrap_or(0);
    format!("{} role=\"img\">\n<title>{title}</title>{}", svg[..begin].trim_end_matches('>'), &svg[begin..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let series = Series { name: "a < b & c".into(), points };
        Chart { title: "t & u".into(), across: "ranks".into(), base: 10, unit: Unit::Time, series: vec![series] }
    }

    #[test]
    fn an_axis_spans_whole_powers() {
        assert_eq!(powers(10, [20.0, 3000.0].into_iter()), Some(10.0..10_000.0));
        // One value, a power of ten itself, still spans something.
        assert_eq!(powers(10, [100.0].into_iter()), Some(100.0..1000.0));
        assert_eq!(powers(2, [1.0, 2.0, 8.0].into_iter()), Some(1.0..8.0));
        assert_eq!(powers(10, [].into_iter()), None);
    }

    #[test]
    fn a_picture_has_its_points_its_legend_and_a_title() {
        let svg = chart(vec![(1000.0, 0.5), (1_000_000.0, 80.0)]).svg().unwrap();
        for wanted in ["a &lt; b &amp; c", "1,000,000", "<title>t &amp; u</title>", "100 ns", "100 µs"] {
            assert!(svg.contains(wanted), "{wanted} in {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(chart(Vec::new()).svg().is_err());
    }

    #[test]
    fn bars_say_how_much_faster() {
        let pair = Pair { name: "a Get".into(), ours: 0.035, stock: 56.5 };
        let svg = bars("costs", &[pair]).unwrap();
        for wanted in ["35.0 ns (1614 times faster)", "56.5 µs stock", "a Get", "10 ns"] {
            assert!(svg.contains(wanted), "{wanted} in {svg}");
        }
        assert!(bars("costs", &[]).is_err());
    }

    #[test]
    fn axes_show_round_numbers() {
        assert_eq!(power_of_ten(Unit::Time, 100.0), "100 µs");
        assert_eq!(power_of_ten(Unit::Time, 10_000.0), "10 ms");
        assert_eq!(power_of_ten(Unit::Memory, 1.0), "1 B");
    }
}
