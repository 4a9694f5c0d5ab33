//! A manual page for every function of the public headers: its prototype from their table, and what it does from the
//! documentation of the Rust function that does it. If one piece of Rust serves many functions alike, the table
//! has the words.
use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::generate::{self, Entry};

/// Words in front of every function's own.
const ABOUT: &str = "Instanton";

/// The pages, under their file names. `sources` are those of the exported functions.
pub fn pages(sources: &[String]) -> Vec<(String, String)> {
    let documented: BTreeMap<String, String> = sources.iter().flat_map(|source| documentation(source)).collect();
    generate::functions().iter().map(|function| page(function, &documented)).collect()
}

/// The exported functions of a source, and what their comments say.
fn documentation(source: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in source.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            comment.push(words.trim());
        } else if let Some(rest) = line.strip_prefix("fn PMIx_") {
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            found.push((format!("PMIx_{name}"), comment.join("\n")));
            comment.clear();
        } else if !line.starts_with("#[") {
            comment.clear();
        }
    }
    found.retain(|(_, comment)| !comment.is_empty());
    found
}

fn page(function: &Entry, documented: &BTreeMap<String, String>) -> (String, String) {
    let name = generate::name_of(function.head);
    let short = function.lines.join(" ");
    let what = documented.get(name).map_or(short.as_str(), String::as_str);
    let mut text = format!(".TH {name} 3 \"\" \"{ABOUT}\" \"PMIx functions\"\n");
    let brief = short.split(['.', ';', ':']).next().unwrap_or_default();
    writeln!(text, ".SH NAME\n{name} \\- {}", escaped(brief)).expect("writing to a string");
    writeln!(text, ".SH SYNOPSIS\n.nf\n.B #include <{}>\n.sp", function.section).expect("writing to a string");
    writeln!(text, "{}\n.fi", prototype(function.head)).expect("writing to a string");
    writeln!(text, ".SH DESCRIPTION").expect("writing to a string");
    for paragraph in what.split("\n\n") {
        writeln!(text, ".PP\n{}", escaped(paragraph)).expect("writing to a string");
    }
    writeln!(text, ".SH RETURN VALUE\n{}", returned(function.head)).expect("writing to a string");
    let also: Vec<String> = related(name).iter().map(|name| format!(".BR {name} (3)")).collect();
    writeln!(text, ".SH SEE ALSO\n{}", also.join(",\n")).expect("writing to a string");
    (format!("{name}.3"), text)
}

/// Endings of functions that belong together: the forms of one call, and the life of one structure.
const FORMS: [&str; 9] = ["", "_nb", "_construct", "_destruct", "_create", "_free", "_release", "_load", "_string"];

/// The other forms of a function, and the two pages that every reader may need.
fn related(name: &str) -> Vec<&'static str> {
    let stem = FORMS[1..].iter().find_map(|form| name.strip_suffix(form)).unwrap_or(name);
    let is_form = |other: &&str| other.strip_prefix(stem).is_some_and(|ending| FORMS.contains(&ending));
    let mut names: Vec<&str> = generate::functions().iter().map(|function| generate::name_of(function.head)).collect();
    names.retain(is_form);
    names.extend(["PMIx_Init", "PMIx_Error_string"]);
    let mut seen = std::collections::BTreeSet::from([name]);
    names.retain(|other| seen.insert(other));
    names
}

/// A prototype with a parameter a line.
fn prototype(head: &str) -> String {
    let (front, parameters) = head.split_once('(').expect("a list of parameters");
    let parameters: Vec<String> = parameters.trim_end_matches(')').split(", ").map(escaped_only).collect();
    format!("{}({});", escaped_only(front), parameters.join(",\n\\ \\ \\ \\ "))
}

fn returned(head: &str) -> String {
    let kind = head[..head.find("PMIx_").expect("a name")].trim();
    let text = match kind {
        "pmix_status_t" => {
            "PMIX_SUCCESS, or the status that says why not; among them\n\
             PMIX_ERR_BAD_PARAM where something is NULL that must not be or a length cannot be, and\n\
             PMIX_ERR_UNKNOWN_DATA_TYPE for the number of a type that there is not.\n\
             What is handed out through parameters is defined in every case."
        }
        "void" => "None.",
        "bool" => "Whether it is so, or whether it was done.",
        "const char *" | "const char*" => "A text that nobody frees.",
        other if other.ends_with('*') => "What was made, or NULL. It is the caller's to free.",
        _ => "The number or constant that is described above.",
    };
    escaped_only(text)
}

/// Text as roff takes it: nothing in it is a request, and code is bold.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split('`').enumerate() {
        match index % 2 {
            0 => out += &escaped_only(part),
            _ => out += &format!("\\fB{}\\fP", escaped_only(part)),
        }
    }
    out
}

fn escaped_only(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}
