//! The trace of this command and of its servers: a subscriber of the `tracing` crate, where `INSTANTON_TRACE` asks for
//! one. Nobody waits for who reads it: lines go the way of all lines ([`instanton::trace`]).
use std::fmt;
use std::io;

use instanton::{printable, trace};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{FmtSpan, Format, Json, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry, fmt::layer};

use crate::say::say;

/// Variable with the levels: one for all, or `part=level`, separated by commas.
pub const LEVEL: &str = "INSTANTON_TRACE_LEVEL";
/// Variable with the form.
pub const FORM: &str = "INSTANTON_TRACE_FORM";

/// Takes the trace over, where there is one; what makes no sense is told, and left out.
pub fn begin() {
    if !trace::enabled() {
        return;
    }
    let said = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    // Of the processes of a run, the one that the user has started complains.
    let is_first = !std::env::args_os().nth(1).is_some_and(|word| word == "launch" || word == "node");
    let complain = |line: &str| {
        if is_first {
            say(line);
        }
    };
    let levels = said(LEVEL).and_then(|levels| match parse(&levels) {
        Some(targets) => Some(targets),
        None => {
            complain(&format!(
                "{LEVEL}={levels} is left out: error, warn, info, debug or trace is meant, or PART=LEVEL,..."
            ));
            None
        }
    });
    let levels = levels.unwrap_or_else(|| Targets::new().with_default(Level::WARN));
    let is_json = match said(FORM).as_deref() {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => {
            complain(&format!("{FORM}={other} is left out: text or json is meant"));
            false
        }
    };
    // Spans of one level are told with their times when they end.
    let set = if is_json {
        let json = Format::default().json().flatten_event(true);
        let layer = layer().fmt_fields(JsonFields::new()).with_span_events(FmtSpan::CLOSE);
        let layer = layer.event_format(Documents(json)).with_writer(Lines { is_json });
        tracing::subscriber::set_global_default(Registry::default().with(layer.with_filter(levels)))
    } else {
        let layer = layer().with_ansi(false).with_span_events(FmtSpan::CLOSE).event_format(Plain);
        let layer = layer.with_writer(Lines { is_json });
        tracing::subscriber::set_global_default(Registry::default().with(layer.with_filter(levels)))
    };
    // This is the first thing that the command does: nobody else has set one.
    if set.is_ok() {
        trace::hand_over();
    }
}

/// Reads levels. A word alone is one for all parts, not the name of a part.
fn parse(levels: &str) -> Option<Targets> {
    let is_sound = |word: &str| word.contains('=') || word.parse::<LevelFilter>().is_ok();
    levels.split(',').all(is_sound).then(|| levels.parse().ok()).flatten()
}

/// Lines for people: those of the library, with the level and the spans around.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let about = event.metadata();
        let level = about.level().as_str().to_ascii_lowercase();
        write!(writer, "instanton {} {} {} {level}: ", about.target(), std::process::id(), trace::time())?;
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            write!(writer, "{}", span.name())?;
            if let Some(fields) = span.extensions().get::<tracing_subscriber::fmt::FormattedFields<N>>()
                && !fields.is_empty()
            {
                write!(writer, "{{{fields}}}")?;
            }
            write!(writer, ": ")?;
        }
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// JSON as the crate writes it, and the process in front.
struct Documents(Format<Json>);

impl<S, N> FormatEvent<S, N> for Documents
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut text = String::new();
        self.0.format_event(context, Writer::new(&mut text), event)?;
        let rest = text.strip_prefix('{').unwrap_or(&text);
        write!(writer, "{{\"pid\":{},{rest}", std::process::id())
    }
}

/// The way of lines, which nobody waits for.
struct Lines {
    is_json: bool,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { is_json: self.is_json }
    }
}

/// One line on its way.
struct Line {
    is_json: bool,
}

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.is_json {
            true => trace::write(bytes),
            // Names of others may be in it: they begin no line of their own, and command no terminal.
            false => {
                let text = String::from_utf8_lossy(bytes);
                trace::write(format!("{}\n", printable(text.trim_end_matches('\n'))).as_bytes());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
