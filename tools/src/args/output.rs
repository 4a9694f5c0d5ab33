//! Options of output and input: the form of the ranks' lines, where they go, and who reads what is typed.
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use instanton::data::Rank;
use instanton::internal::message::lines::LineFormat;

use crate::choice::choose;
use crate::files::Files;
use crate::job::{StreamOptions, Tags};

/// Options of output and input.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output and input")]
pub struct OutputArgs {
    /// Format of the output: tag, tag-detailed, tag-fullname, rank, timestamp, xml, merge-stderr-to-stdout, dir=DIR,
    /// file=NAME, separated by commas. Modifiers follow, each after a colon: nocopy (write files alone), raw (pass
    /// output on as it is written)
    #[arg(long, value_name = "WHAT")]
    output: Vec<String>,
    /// Begin every line of output with its rank and stream: --output tag
    #[arg(long, visible_alias = "label")]
    pub tag_output: bool,
    /// Begin every line of output with the time: --output timestamp
    #[arg(long)]
    timestamp_output: bool,
    /// Show every line of output as an element of XML: --output xml
    #[arg(long)]
    xml: bool,
    /// Merge the standard error of each rank into its standard output: --output merge-stderr-to-stdout
    #[arg(long)]
    merge_stderr_to_stdout: bool,
    /// Also write the output to DIR/JOB/rank.RANK/stdout and stderr: --output dir=DIR
    #[arg(long, visible_alias = "output-directory", value_name = "DIR[:nocopy]")]
    output_filename: Option<String>,
    /// Rank that reads standard input; all or none are possible
    #[arg(long, value_name = "RANK", value_parser = stdin, default_value = "0")]
    pub stdin: Stdin,
    /// Give each rank a terminal for its standard output, so that lines come as they are written
    #[arg(long, overrides_with = "no_pty")]
    pub pty: bool,
    /// Give each rank a pipe for its standard output, even where this command writes to a terminal
    #[arg(long, overrides_with = "pty")]
    pub no_pty: bool,
}

/// Ranks of the first job that read our standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    None,
    Rank(u32),
    All,
}

/// Directives of `--output`.
const DIRECTIVES: [&str; 9] =
    ["tag", "tag-detailed", "tag-fullname", "rank", "timestamp", "xml", "merge-stderr-to-stdout", "dir", "file"];
/// Qualifiers of them.
const QUALIFIERS: [&str; 3] = ["nocopy", "raw", "pattern"];

impl OutputArgs {
    /// Complains of what makes no sense.
    ///
    /// # Errors
    /// A line about it.
    pub fn check(&self) -> Result<(), String> {
        self.options(Path::new("")).map(drop)
    }

    /// Returns whether ranks have a terminal as their standard output: where the command's own is one, unless somebody
    /// says more.
    pub fn gives_terminals(&self, own: &impl IsTerminal) -> bool {
        !self.no_pty && (self.pty || own.is_terminal())
    }

    /// The form and the place of the output of every job of the run, whose files are named from `here`.
    ///
    /// # Errors
    /// A line about what makes no sense.
    pub fn options(&self, here: &Path) -> Result<StreamOptions, String> {
        let mut options = StreamOptions {
            tags: if self.tag_output { Tags::Short } else { Tags::None },
            format: LineFormat { stamps: self.timestamp_output, is_xml: self.xml },
            is_merged: self.merge_stderr_to_stdout,
            ..StreamOptions::default()
        };
        let mut place = None;
        for directive in self.output.iter().flat_map(|list| list.split(',')) {
            place = read_directive(directive, here, &mut options)
                .map_err(|error| format!("--output {directive}: {error}"))?
                .or(place);
        }
        if let Some(name) = &self.output_filename {
            let read = read_directive(&format!("dir={name}"), here, &mut options);
            place = read.map_err(|error| format!("--output-filename {name}: {error}"))?;
        }
        let only = options.files.only;
        match place {
            Some(place) => options.files = place.alone(only),
            None if only => return Err("--output: nocopy needs a place, as in dir=DIR:nocopy".to_owned()),
            None => {}
        }
        Ok(options)
    }
}

/// Reads one directive with its qualifiers. Returns the place that it names.
fn read_directive(directive: &str, here: &Path, options: &mut StreamOptions) -> Result<Option<Files>, String> {
    let (word, value) = match directive.split_once('=') {
        Some((word, value)) => (word, Some(value)),
        None => (directive, None),
    };
    let mut is_pattern = false;
    let mut rest = value.unwrap_or(word);
    // The name of a file may have colons of its own: what is no qualifier belongs to it.
    while let Some((front, qualifier)) = rest.rsplit_once(':') {
        match choose("qualifier", qualifier, &QUALIFIERS) {
            Ok("nocopy") => options.files.only = true,
            Ok("raw") => options.is_raw = true,
            Ok(_) => is_pattern = true,
            Err(_) if value.is_some() => break,
            Err(error) => return Err(error),
        }
        rest = front;
    }
    let word = if value.is_some() { word } else { rest };
    let directive = match word {
        // Qualifiers alone.
        "" if directive.starts_with(':') => return Ok(None),
        word if QUALIFIERS.contains(&word) => {
            return Err(format!("{word} stands behind a colon, as in --output :{word}"));
        }
        _ => choose("directive", word, &DIRECTIVES)?,
    };
    match directive {
        "dir" | "file" => {
            let name = value.map(|_| rest).filter(|name| !name.is_empty());
            let name = PathBuf::from(name.ok_or_else(|| format!("a name is missing, as in {directive}=NAME"))?);
            let name = here.join(name);
            return Ok(Some(if directive == "dir" {
                Files::in_directory(name)
            } else {
                Files::named(name, is_pattern)
            }));
        }
        _ if value.is_some() => return Err(format!("{directive} takes no value")),
        "tag" => options.tags = Tags::Short,
        "tag-detailed" => options.tags = Tags::Detailed,
        "tag-fullname" => options.tags = Tags::Full,
        "rank" => options.tags = Tags::Rank,
        "timestamp" => options.format.stamps = true,
        "xml" => options.format.is_xml = true,
        _ => options.is_merged = true,
    }
    Ok(None)
}

impl Stdin {
    /// The ranks of the first job that read it.
    pub fn target(self) -> Option<Rank> {
        match self {
            Stdin::None => None,
            Stdin::Rank(rank) => Some(Rank(rank)),
            Stdin::All => Some(Rank::WILDCARD),
        }
    }
}

fn stdin(text: &str) -> Result<Stdin, String> {
    match text.to_ascii_lowercase().as_str() {
        "none" => Ok(Stdin::None),
        "all" => Ok(Stdin::All),
        text => text.parse().map(Stdin::Rank).map_err(|_| "neither a rank nor all or none".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(directives: &[&str]) -> Result<StreamOptions, String> {
        let args = OutputArgs {
            output: directives.iter().map(|directive| directive.to_string()).collect(),
            tag_output: false,
            timestamp_output: false,
            xml: false,
            merge_stderr_to_stdout: false,
            output_filename: None,
            stdin: Stdin::Rank(0),
            pty: false,
            no_pty: false,
        };
        args.options(Path::new("/here"))
    }

    #[test]
    fn directives_are_read_in_any_case_and_shortened() {
        let all = read(&["TAG,Time,xml", "merge"]).unwrap();
        assert_eq!((all.tags, all.format.stamps, all.format.is_xml, all.is_merged), (Tags::Short, true, true, true));
        assert_eq!(read(&["tag-d"]).unwrap().tags, Tags::Detailed);
        assert_eq!(read(&["tag-f:raw"]).map(|read| (read.tags, read.is_raw)), Ok((Tags::Full, true)));
        assert_eq!(read(&["rank"]).unwrap().tags, Tags::Rank);
        assert!(read(&[":raw"]).unwrap().is_raw);
        assert_eq!(read(&["dir=/x:no:raw"]).unwrap().files, Files::in_directory("/x".into()).alone(true));
        assert_eq!(read(&["file=/a:b"]).unwrap().files, Files::named("/a:b".into(), false));
        assert_eq!(read(&["file=/a.%r:pattern"]).unwrap().files, Files::named("/a.%r".into(), true));
    }

    #[test]
    fn a_wrong_directive_is_named() {
        for (directive, word) in [
            ("t", "tag or"),
            ("tagg", "tag"),
            ("", "There are"),
            ("dir", "dir=NAME"),
            ("file=:raw", "file=NAME"),
            ("tag=1", "no value"),
            ("tag:rw", "raw"),
            ("tag:nocopy", "dir=DIR"),
        ] {
            let error = read(&[directive]).unwrap_err();
            assert!(error.starts_with("--output") && error.contains(word), "{error}");
        }
    }
}
