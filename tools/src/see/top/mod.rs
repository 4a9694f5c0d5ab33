//! `instanton top`: a screen of what runs, anew every second.
//!
//! Three threads: one asks the servers and hands over [samples](sample); one reads keys; this one keeps the
//! [state] and [draws](draw) it. None waits for another: a server that hangs does not keep a key from being heard. A
//! fourth waits for signals. The terminal is put back when this ends, whichever way: by key or signal, by a panic, and
//! when the only server that was meant is gone.
//!
//! Without a terminal it prints tables, or JSON, as often as it is told.
mod draw;
mod sample;
mod state;

use std::io::{IsTerminal, stdin, stdout};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use ratatui::crossterm::event::{self, Event as Typed, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::places::From;
use super::ps::{NOTHING, complain};
use super::{json, table};
use crate::out;
use crate::outcome::{FAILURE, SENSELESS};
use crate::say::say;
use crate::threads::start_thread;
use draw::Look;
use sample::{Document, Sample, Watched};
use state::{Action, State, View};

/// Shortest time between two samples.
const SHORTEST: Duration = Duration::from_millis(100);
/// Rows of a page.
const PAGE: i32 = 10;

/// `instanton top`.
#[derive(Clone, Debug, Args)]
pub struct Top {
    #[command(flatten)]
    from: From,
    /// Seconds between two samples
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// End after N samples; without a terminal the default is 1
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// Print JSON, a line for each sample, as docs/SCHEMAS.md describes it
    #[arg(long)]
    json: bool,
}

/// Something that happens.
enum Event {
    /// The servers have been asked.
    Sample(Result<Sample, String>),
    /// The user has typed.
    Action(Action),
    /// The terminal has another size.
    Resized,
    /// A signal of this number asks for the end.
    Ended(i32),
}

/// Shows what runs. Returns the status to exit with.
pub fn run(options: &Top) -> Result<u8> {
    let interval = match Duration::try_from_secs_f64(options.interval) {
        Ok(interval) if interval >= SHORTEST => interval,
        _ => {
            return out::refuse("--interval: seconds, 0.1 at least", SENSELESS);
        }
    };
    match stdout().is_terminal() && stdin().is_terminal() && !options.json {
        true => screen(options, interval),
        false => lines(options, interval),
    }
}

/// Prints samples.
fn lines(options: &Top, interval: Duration) -> Result<u8> {
    let mut watched = Watched::new(options.from.clone());
    let (never, stopped) = mpsc::channel::<()>();
    let mut left = options.count.unwrap_or(1);
    let mut state = State::default();
    let mut is_told;
    loop {
        let sample = match watched.sample(None) {
            Ok(sample) if sample.servers.is_empty() && !options.json => return out::refuse(NOTHING, FAILURE),
            Ok(sample) => sample,
            Err(line) => return out::refuse(&line, FAILURE),
        };
        is_told = sample.servers.iter().any(|server| server.error.is_none());
        let is_read = match options.json {
            true => out::is_read(&json::line("top", &Document::of(sample))?)?,
            false => {
                sample.servers.iter().for_each(|server| complain(&server.server, server.error.as_deref()));
                state.take(sample);
                out::is_read(&text(&state))?
            }
        };
        left = left.saturating_sub(1);
        if left == 0 || !is_read {
            drop(never);
            return Ok(if is_told { 0 } else { FAILURE });
        }
        // Nobody ever says anything there.
        let _ = stopped.recv_timeout(interval);
    }
}

/// The jobs of a sample as a table.
fn text(state: &State) -> String {
    const HEADER: [&str; 8] = ["IN", "JOB", "RANKS", "HERE", "WAIT", "STATE", "HELD", "COMMAND"];
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let rows = state.rows();
    let cells = rows.iter().map(|row| {
        vec![
            row.server.server.label(),
            dash(row.job.number.map(|number| number.to_string())),
            dash(row.job.ranks.map(|ranks| ranks.to_string())),
            dash(row.load.map(|load| format!("{}/{}", load.attached, load.local))),
            dash(row.waiting.map(|waiting| waiting.to_string())),
            dash(row.job.state.clone()),
            dash(row.load.map(|load| load.held.to_string())),
            dash(row.job.command.clone()),
        ]
    });
    table::table(&HEADER, cells, table::width())
}

/// Shows the screen until the user, a signal or the end of the server that is meant ends it.
fn screen(options: &Top, interval: Duration) -> Result<u8> {
    let (events, happens) = mpsc::channel();
    // Before any thread begins, so that each of them leaves signals to the one that waits.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    signals.thread_block().context("cannot block signals")?;
    let wanted = Arc::new(Mutex::new(None));
    ask(Watched::new(options.from.clone()), interval, wanted.clone(), events.clone())?;
    watch_signals(signals, events.clone())?;
    let mut terminal = ratatui::try_init().context("cannot take over the terminal")?;
    let shown = start_thread("keys", move || read_keys(&events))
        .and_then(|()| show(&mut terminal, &happens, &wanted, options.count));
    ratatui::restore();
    let (code, line) = shown?;
    line.iter().for_each(|line| say(line));
    Ok(code)
}

/// Asks the servers again and again.
fn ask(
    mut watched: Watched,
    interval: Duration,
    wanted: Arc<Mutex<Option<String>>>,
    events: Sender<Event>,
) -> Result<()> {
    let (never, stopped) = mpsc::channel::<()>();
    start_thread("samples", move || {
        let _held = never;
        loop {
            let begin = Instant::now();
            let ranks_of = wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if events.send(Event::Sample(watched.sample(ranks_of.as_deref()))).is_err() {
                return;
            }
            let _ = stopped.recv_timeout(interval.saturating_sub(begin.elapsed()));
        }
    })
}

fn watch_signals(signals: SigSet, events: Sender<Event>) -> Result<()> {
    start_thread("signals", move || {
        if let Ok(signal) = signals.wait() {
            let _ = events.send(Event::Ended(signal as i32));
        }
    })
}

/// Reads what the user types, to the end of the terminal.
fn read_keys(events: &Sender<Event>) {
    while let Ok(typed) = event::read() {
        let event = match typed {
            Typed::Key(key) if key.kind != KeyEventKind::Release => match action(key) {
                Some(action) => Event::Action(action),
                None => continue,
            },
            Typed::Resize(..) => Event::Resized,
            _ => continue,
        };
        if events.send(event).is_err() {
            return;
        }
    }
    let _ = events.send(Event::Action(Action::Quit));
}

fn action(key: KeyEvent) -> Option<Action> {
    Some(match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Action::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Action::Quit,
        KeyCode::Down | KeyCode::Char('j') => Action::Next,
        KeyCode::Up | KeyCode::Char('k') => Action::Before,
        KeyCode::PageDown => Action::Scroll(PAGE),
        KeyCode::PageUp => Action::Scroll(-PAGE),
        KeyCode::Char('r') | KeyCode::Tab => Action::Switch,
        KeyCode::Char(' ' | 'p') => Action::Pause,
        KeyCode::Char('?' | 'h') => Action::Help,
        _ => return None,
    })
}

/// Draws whatever happens. Returns the status to exit with, and a line for the user.
fn show(
    terminal: &mut ratatui::DefaultTerminal,
    happens: &Receiver<Event>,
    wanted: &Mutex<Option<String>>,
    count: Option<u64>,
) -> Result<(u8, Option<String>)> {
    let look = Look { has_colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) };
    let mut state = State::default();
    let mut left = count;
    loop {
        terminal.draw(|frame| draw::draw(frame, &state, look)).context("cannot draw")?;
        match happens.recv().context("nothing happens any more")? {
            Event::Sample(Ok(sample)) => {
                left = left.map(|left| left.saturating_sub(1));
                state.take(sample);
                if left == Some(0) {
                    return Ok((0, None));
                }
            }
            // The server that is meant is gone, or never was there.
            Event::Sample(Err(line)) => {
                let code = if state.servers().is_some() { 0 } else { FAILURE };
                return Ok((code, Some(line)));
            }
            Event::Action(action) if !state.act(action) => return Ok((0, None)),
            Event::Action(_) | Event::Resized => {}
            Event::Ended(signal) => return Ok((u8::try_from(128 + signal).unwrap_or(FAILURE), None)),
        }
        let ranks_of = (state.view == View::Ranks).then(|| state.chosen_namespace()).flatten();
        *wanted.lock().unwrap_or_else(PoisonError::into_inner) = ranks_of;
    }
}
