//! The screen, drawn from its state alone. There are no frames, so that any locale can show it; colours only say again
//! what is in words.
use instanton::data::JobLoad;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table};

use super::state::{Row, State, View};
use crate::see::places::Library;
use crate::see::ps::NOTHING;
use crate::see::table::plain;
use crate::see::waiting;

/// Width from which details stand beside the rest.
const WIDE: u16 = 120;
/// Width of the details there.
const DETAILS: u16 = 46;
/// Height of the details where they stand below.
const DETAILS_BELOW: u16 = 7;

/// Appearance of the screen.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// True if colours are shown.
    pub has_colours: bool,
}

impl Look {
    fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn column(self) -> Style {
        let style = Style::new().add_modifier(Modifier::UNDERLINED);
        if self.has_colours { style.fg(Color::Cyan) } else { style }
    }

    fn bad(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if self.has_colours { style.fg(Color::Yellow) } else { style }
    }

    fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// Draws the screen.
pub fn draw(frame: &mut Frame, state: &State, look: Look) {
    let area = frame.area();
    let errors = errors(state);
    let [title, bad, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(errors.len().min(3) as u16),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(heading(state)).style(look.head()), title);
    frame.render_widget(Paragraph::new(Text::from(errors)).style(look.bad()), bad);
    frame.render_widget(Paragraph::new(footer(state)), foot);
    if state.shows_help {
        frame.render_widget(Paragraph::new(HELP), body);
        return;
    }
    let rows = state.rows();
    if rows.is_empty() {
        frame.render_widget(Paragraph::new(nothing(state)), body);
        return;
    }
    let most = (body.height / 3).max(4);
    let [jobs, _, rest] = Layout::vertical([
        Constraint::Length((rows.len() as u16).saturating_add(1).min(most)),
        Constraint::Length(1),
        Constraint::Min(0),
    ])
    .areas(body);
    draw_jobs(frame, state, &rows, jobs, look);
    let chosen = rows.get(state.chosen);
    if area.width >= WIDE {
        let [left, _, right] =
            Layout::horizontal([Constraint::Min(0), Constraint::Length(2), Constraint::Length(DETAILS)]).areas(rest);
        draw_lower(frame, state, chosen, left, look);
        let [requests, memory] = Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(right);
        draw_requests(frame, state, requests, look);
        draw_memory(frame, chosen, memory, look);
    } else {
        let [lower, details] = Layout::vertical([Constraint::Min(3), Constraint::Length(DETAILS_BELOW)]).areas(rest);
        draw_lower(frame, state, chosen, lower, look);
        let [requests, _, memory] =
            Layout::horizontal([Constraint::Fill(2), Constraint::Length(2), Constraint::Fill(3)]).areas(details);
        draw_requests(frame, state, requests, look);
        draw_memory(frame, chosen, memory, look);
    }
}

/// The keys.
const HELP: &str = "
  up, k      choose the job before      down, j   choose the next one
  page up    scroll the lower part      page down
  r          ranks of the chosen job instead of who waits, and back
  space      stop here, and go on
  q          end
  ?, h       hide this

IN is a server: the name of an `instanton up`, or the process of a launcher; the nodes of a
run are one. HERE are ranks that are attached, of those on these nodes. WAIT are ranks that
wait in a call. REQ/S are requests of the job's ranks a second. HELD is what its ranks make
servers hold, SHARED its shared memory. A dash was not told.";

fn errors(state: &State) -> Vec<Line<'static>> {
    let servers = state.servers().unwrap_or_default();
    let line = |server: &super::sample::ServerSample| {
        let error = server.error.as_ref()?;
        Some(Line::from(plain(&format!("{}: {error}", server.server.words()))))
    };
    servers.iter().filter_map(line).collect()
}

fn heading(state: &State) -> String {
    let rows = state.rows();
    let count = |count: u64, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let servers = state.servers().unwrap_or_default().len() as u64;
    let ranks: u64 = rows.iter().filter_map(|row| row.job.ranks).map(u64::from).sum();
    let waiting: u64 = rows.iter().filter_map(|row| row.waiting).sum();
    let rate: f64 = state.rates().iter().map(|(_, rate)| rate).sum();
    let paused = if state.is_paused { "   paused" } else { "" };
    format!(
        "instanton top   {}   {}   {}   {waiting} waiting   {rate:.1} requests/s{paused}",
        count(servers, "server"),
        count(rows.len() as u64, "job"),
        count(ranks, "rank"),
    )
}

fn footer(state: &State) -> &'static str {
    match state.view {
        _ if state.shows_help => "?: back   q: end",
        View::Waits => "up/down: job   r: its ranks   space: stop   ?: keys   q: end",
        View::Ranks => "up/down: job   r: who waits   space: stop   ?: keys   q: end",
    }
}

fn nothing(state: &State) -> String {
    let line = match state.servers() {
        None => "asking ...",
        Some([]) => NOTHING,
        Some(_) => "no job runs",
    };
    format!("\n{line}")
}

/// A number of bytes in few letters.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];
    let (mut amount, mut unit) = (bytes as f64, 0);
    while amount >= 1000.0 && unit + 1 < UNITS.len() {
        (amount, unit) = (amount / 1024.0, unit + 1);
    }
    match unit > 0 && amount < 9.95 {
        true => format!("{amount:.1}{}", UNITS[unit]),
        false => format!("{amount:.0}{}", UNITS[unit]),
    }
}

fn dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

fn draw_jobs(frame: &mut Frame, state: &State, rows: &[Row<'_>], area: Rect, look: Look) {
    let is_wide = area.width >= WIDE;
    let of = |used: u64, limit: u64| match is_wide {
        true => format!("{}/{}", bytes(used), bytes(limit)),
        false => bytes(used),
    };
    let cells = |row: &Row<'_>| {
        let load = row.load;
        let mut cells = vec![
            row.server.server.label(),
            dash(row.job.number.map(|number| number.to_string())),
            dash(row.job.ranks.map(|ranks| ranks.to_string())),
            dash(load.map(|load| format!("{}/{}", load.attached, load.local))),
            dash(row.waiting.map(|waiting| waiting.to_string())),
            dash(row.job.state.clone()),
            dash(row.rate.map(|rate| format!("{rate:.1}"))),
            dash(load.map(|load| of(load.held, load.held_limit))),
            dash(load.and_then(|load| load.shared).map(|shared| of(shared.bytes, shared.limit))),
        ];
        if is_wide {
            cells.push(row.job.namespace.clone());
        }
        cells.push(dash(row.job.command.clone()));
        cells.into_iter().map(|cell| Cell::from(plain(&cell))).collect::<Vec<_>>()
    };
    let mut header = vec!["IN", "JOB", "RANKS", "HERE", "WAIT", "STATE", "REQ/S", "HELD", "SHARED"];
    let mut widths: Vec<Constraint> = match is_wide {
        true => [10, 4, 7, 11, 6, 10, 9, 10, 10],
        false => [8, 3, 6, 9, 5, 8, 7, 5, 6],
    }
    .map(Constraint::Length)
    .into();
    if is_wide {
        header.push("NAMESPACE");
        widths.push(Constraint::Max(32));
    }
    header.push("COMMAND");
    widths.push(Constraint::Min(8));
    // The chosen one is in sight.
    let room = usize::from(area.height.saturating_sub(1)).max(1);
    let first = (state.chosen + 1).saturating_sub(room);
    let shown = rows.iter().enumerate().skip(first).map(|(at, row)| {
        let style = match row.waiting {
            _ if at == state.chosen => look.chosen(),
            Some(1..) => look.bad(),
            _ => Style::new(),
        };
        TableRow::new(cells(row)).style(style)
    });
    let table = Table::new(shown, widths).header(TableRow::new(header).style(look.column())).column_spacing(1);
    frame.render_widget(table, area);
}

/// Lines of a text, those that are scrolled away left out.
fn draw_text(frame: &mut Frame, text: &str, scrolled: usize, area: Rect, look: Look) {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default().to_owned();
    let count = lines.clone().count();
    let room = usize::from(area.height.saturating_sub(1));
    let first = scrolled.min(count.saturating_sub(room));
    let rest = lines.skip(first).take(room).map(|line| Line::from(line.to_owned()));
    let lines: Vec<Line> = std::iter::once(Line::styled(header, look.column())).chain(rest).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_lower(frame: &mut Frame, state: &State, chosen: Option<&Row<'_>>, area: Rect, look: Look) {
    let Some(row) = chosen else { return };
    let text = match state.view {
        View::Waits => waits_text(row, area.width),
        View::Ranks => ranks_text(row, area.width),
    };
    draw_text(frame, &text, state.scrolled, area, look);
}

fn waits_text(row: &Row<'_>, width: u16) -> String {
    let Some(report) = &row.server.waiting else { return not_told(row, "who waits for whom") };
    let mut report = report.clone();
    report.rows.retain(|waiting| waiting.nspace.as_bytes() == row.job.namespace.as_bytes());
    waiting::table(&report, Some(width), |_, _| None)
}

fn not_told(row: &Row<'_>, what: &str) -> String {
    let library = match row.server.server.library {
        Library::Stock => ", which is on a stock library",
        Library::Instanton => "",
    };
    plain(&format!("{what}: not told by {}{library}", row.server.server.words()))
}

fn ranks_text(row: &Row<'_>, width: u16) -> String {
    let Some(processes) = &row.job.procs else { return not_told(row, "ranks") };
    let cells = |process: &crate::see::jobs::Process| {
        vec![
            process.rank.to_string(),
            dash(process.node.clone()),
            dash(process.pid.map(|pid| pid.to_string())),
            match process.exit_code {
                Some(code) => format!("{} ({code})", process.state),
                None => process.state.to_owned(),
            },
            dash(process.program.clone()),
        ]
    };
    crate::see::table::table(&["RANK", "NODE", "PID", "STATE", "PROGRAM"], processes.iter().map(cells), Some(width))
}

fn draw_requests(frame: &mut Frame, state: &State, area: Rect, look: Look) {
    let rates = state.rates();
    let width = usize::from(area.width).saturating_sub(10);
    let mut lines = vec![Line::styled("REQUESTS A SECOND", look.column())];
    match rates.is_empty() {
        true => lines.push("not told".into()),
        false => lines.extend(rates.iter().map(|(kind, rate)| {
            let kind = kind.strip_prefix("a ").or(kind.strip_prefix("an ")).unwrap_or(kind);
            Line::from(format!("{:width$.width$} {rate:>9.1}", plain(kind)))
        })),
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_memory(frame: &mut Frame, chosen: Option<&Row<'_>>, area: Rect, look: Look) {
    let Some(row) = chosen else { return };
    let of = row.job.number.map_or_else(|| row.job.namespace.clone(), |number| format!("JOB {number}"));
    let mut lines = vec![Line::styled(plain(&format!("MEMORY OF {of}")), look.column())];
    match row.load {
        None => lines.push("not told".into()),
        Some(load) => lines.extend(memory_lines(load, area.width).into_iter().map(Line::from)),
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn memory_lines(load: &JobLoad, width: u16) -> Vec<String> {
    let mut lines = vec![format!("held {} of {}", bytes(load.held), bytes(load.held_limit))];
    if let Some(shared) = load.shared {
        lines.push(format!(
            "shared {} of {}: live {}, retired {}",
            bytes(shared.bytes),
            bytes(shared.limit),
            bytes(shared.live),
            bytes(shared.retired)
        ));
        lines.push(format!(
            "segments {}, waiting {}, set aside {}",
            shared.segments,
            shared.waiting_sets,
            bytes(shared.set_aside)
        ));
        lines.push(format!("generation {}", shared.generation));
    }
    let room = usize::from(width).saturating_sub(8);
    let mut kinds = load.kinds.clone();
    kinds.sort_by_key(|(_, held)| std::cmp::Reverse(*held));
    lines.extend(kinds.iter().map(|(kind, held)| format!("{:room$.room$} {:>6}", plain(kind), bytes(*held))));
    lines
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
