//! Words of a command line before they are read: spellings of other launchers become ours.
//!
//! A long option may have one dash. Options that mean nothing here are taken out, with a note where that may be news.
//! Options of the whole job that stand before a later application go before the first. `--app FILE` becomes what stands
//! in the file, an application a line; and files of parameters what stands in them, before what the command line says.
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Args, CommandFactory};

use super::app::AppArgs;
use super::files::{applications, parameters};
use super::foreign::{self, Answer};
use crate::debugger::ranks::are_ranks;

/// Words as clap reads them.
#[derive(Debug, Default)]
pub struct Words {
    /// Command, subcommand, and the first application.
    pub first: Vec<OsString>,
    /// The further applications, and the place in a file that each comes from.
    pub others: Vec<(Option<String>, Vec<OsString>)>,
    /// Lines about options that mean nothing here.
    pub notes: Vec<String>,
}

/// An option of ours.
#[derive(Clone, Copy)]
struct Known {
    values: usize,
    /// True if the option is one application's.
    is_of_app: bool,
}

/// All options of a subcommand, by their names without dashes.
struct Spellings(HashMap<String, Known>);

/// Words of one application, taken apart.
#[derive(Default)]
struct Parts {
    /// Options of the whole job.
    of_job: Vec<OsString>,
    /// Options of every application.
    of_all: Vec<OsString>,
    /// Its own.
    of_app: Vec<OsString>,
    /// The program and what follows, or the `--` before it.
    command: Vec<OsString>,
    /// Files of applications.
    files: Vec<OsString>,
}

impl Words {
    /// Reads all words, the command's own name first.
    ///
    /// # Errors
    /// A line about an option that is refused or a file that cannot be read.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut segments = split(arguments);
        let first = segments.remove(0);
        let Some(spellings) = first.get(1).and_then(|name| Spellings::of(name)) else {
            // Neither a run nor its other half.
            return Ok(Self { first, ..Self::default() });
        };
        let mut words = Self::default();
        let begin = spellings.parts(&first[2..], &mut words.notes)?;
        let (mut of_job, mut of_all) = (begin.of_job, begin.of_all);
        let mut apps = vec![(None, begin.of_app, begin.command)];
        for segment in segments {
            let parts = spellings.parts(&segment, &mut words.notes)?;
            if !parts.files.is_empty() {
                return Err("--app stands behind a colon; give it alone, before any program".to_owned());
            }
            of_job.extend(parts.of_job);
            of_all.extend(parts.of_all);
            apps.push((None, parts.of_app, parts.command));
        }
        if let [file, more @ ..] = &begin.files[..] {
            let has_program = apps.iter().any(|(_, _, command)| !command.is_empty());
            if has_program || apps.len() > 1 || !more.is_empty() {
                return Err(format!("--app {}: the applications stand in that file alone", file.display()));
            }
            let (_, of_first, _) = apps.remove(0);
            for (place, line) in applications(file)? {
                let parts = spellings.parts(&line, &mut words.notes).map_err(|error| format!("{place}: {error}"))?;
                of_job.extend(parts.of_job);
                of_all.extend(parts.of_all);
                let of_app = of_first.iter().cloned().chain(parts.of_app).collect();
                apps.push((Some(place), of_app, parts.command));
            }
        }
        let (_, of_app, command) = apps.remove(0);
        // An application's own options come last, where they count.
        let own = |of_app: Vec<OsString>, command| of_all.iter().cloned().chain(of_app).chain(command);
        words.first = first[..2].iter().cloned().chain(of_job).chain(own(of_app, command)).collect();
        words.others =
            apps.into_iter().map(|(place, of_app, command)| (place, own(of_app, command).collect())).collect();
        Ok(words)
    }
}

impl Spellings {
    /// The options of a subcommand; none if it is another.
    fn of(subcommand: &OsStr) -> Option<Self> {
        let command = super::Cli::command();
        let command = command.find_subcommand(subcommand).filter(|command| !command.has_subcommands())?;
        let of_app = AppArgs::augment_args(clap::Command::new("app"));
        let of_app: Vec<&clap::Id> = of_app.get_arguments().map(clap::Arg::get_id).collect();
        let mut all = HashMap::new();
        for arg in command.get_arguments() {
            let values = match arg.get_action().takes_values() {
                true => arg.get_num_args().map_or(1, |range| range.min_values()),
                false => 0,
            };
            let known = Known { values, is_of_app: of_app.contains(&arg.get_id()) };
            let longs = arg.get_long_and_visible_aliases().unwrap_or_default();
            let hidden = arg.get_all_aliases().unwrap_or_default();
            all.extend(longs.into_iter().chain(hidden).map(|name| (name.to_owned(), known)));
            let shorts = arg.get_short_and_visible_aliases().unwrap_or_default();
            all.extend(shorts.into_iter().map(|letter| (letter.to_string(), known)));
        }
        Some(Self(all))
    }

    fn parts(&self, words: &[OsString], notes: &mut Vec<String>) -> Result<Parts, String> {
        let mut parts = Parts::default();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let bytes = word.as_bytes();
            if bytes == b"--" || bytes == b"-" || !bytes.starts_with(b"-") {
                parts.command = words[at..].to_vec();
                break;
            }
            let is_long = bytes.starts_with(b"--");
            let text = &bytes[if is_long { 2 } else { 1 }..];
            let (name, value) = match text.iter().position(|&byte| byte == b'=') {
                Some(end) => (&text[..end], Some(&text[end + 1..])),
                None => (text, None),
            };
            let name = String::from_utf8_lossy(name).into_owned();
            // The value of some options may stand behind a space, if nothing else is so called.
            let ranks = words.get(at + 1).filter(|word| value.is_none() && are_ranks(&name, word.as_bytes()));
            let mut take = |count: usize| {
                // The first is what stands behind an equals sign.
                let count = count - usize::from(value.is_some() && count > 0);
                let following = words[at + 1..].iter().take(count).cloned().collect::<Vec<_>>();
                at += 1 + following.len();
                following
            };
            let joined = value.map(|value| OsString::from_vec(value.to_vec()));
            if name == "app" || name == "configfile" {
                let file = joined.into_iter().chain(take(1)).next();
                parts.files.push(file.ok_or_else(|| format!("--{name}: the name of a file is missing"))?);
                continue;
            }
            // A letter alone has one dash.
            let known = self.0.get(&name).filter(|_| is_long || name.len() > 1 || value.is_none());
            if known.is_none()
                && let Some(foreign) = foreign::find(&name)
                && foreign.answer.option().is_none_or(|option| self.0.contains_key(option))
            {
                let option = format!("{}{name}", if name.len() > 1 { "--" } else { "-" });
                let values: Vec<_> = joined.into_iter().chain(take(foreign.values)).collect();
                match foreign.answer {
                    Answer::Silent => {}
                    Answer::Nothing(why) => notes.push(format!("{option} means nothing here: {why}")),
                    Answer::Refused(instead) => return Err(format!("{option} is not supported: {instead}")),
                    _ if values.len() < foreign.values => return Err(format!("{option}: a value is missing")),
                    Answer::Ours(words) => parts.of_job.extend(words.iter().map(OsString::from).chain(values)),
                    Answer::Parameters { between } => {
                        parts.of_all.extend(parameters(&option, &values[0], between)?);
                    }
                    Answer::Variable { is_of_all } => {
                        let place = if is_of_all { &mut parts.of_all } else { &mut parts.of_app };
                        place.extend(["--set-env".into(), values.join("=".as_ref())]);
                    }
                }
                continue;
            }
            let mut spelled = Vec::new();
            let is_of_app = match known {
                Some(known) => {
                    let dashes = if name.len() > 1 { "--" } else { "-" };
                    spelled.push([dashes.as_bytes(), text].concat());
                    if let (Some(ranks), Some(option)) = (ranks, spelled.last_mut()) {
                        option.extend([b"=", ranks.as_bytes()].concat());
                    }
                    let joined = usize::from(ranks.is_some());
                    let following = take(known.values + joined).into_iter().skip(joined);
                    spelled.extend(following.map(OsString::into_vec));
                    known.is_of_app
                }
                // A letter with its value in one word, or an option that is none: clap says so.
                None => {
                    let letter = text.first().map(|&letter| char::from(letter).to_string()).unwrap_or_default();
                    let known = self.0.get(&letter).filter(|known| !is_long && known.values == 1);
                    let dashes: &[u8] = if known.is_some() || text.len() < 2 { b"-" } else { b"--" };
                    spelled.push(if is_long { bytes.to_vec() } else { [dashes, text].concat() });
                    take(0);
                    known.is_none_or(|known| known.is_of_app)
                }
            };
            let place = if is_of_app { &mut parts.of_app } else { &mut parts.of_job };
            place.extend(spelled.into_iter().map(OsString::from_vec));
        }
        Ok(parts)
    }
}

/// The words between lone colons.
fn split(arguments: impl IntoIterator<Item = OsString>) -> Vec<Vec<OsString>> {
    let mut segments = vec![Vec::new()];
    for word in arguments {
        match word == ":" {
            true => segments.push(Vec::new()),
            false => segments.last_mut().expect("begun with one").push(word),
        }
    }
    segments
}
