//! Makes the header, the list of exports and the manual pages of one table.
use std::fmt::Write as _;

const TABLE: &str = include_str!("table.txt");
/// Lines as wide as this, where C lets them end.
const WIDTH: usize = 110;

/// A head line and the lines below it.
pub struct Entry {
    pub head: &'static str,
    pub below: Vec<&'static str>,
}

/// The entries of a section.
pub fn section(name: &str) -> Vec<Entry> {
    let lines = TABLE.lines().skip_while(|line| line.trim_matches(['[', ']']) != name).skip(1);
    let mut entries = Vec::<Entry>::new();
    for line in lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.is_empty()) {
        match line.strip_prefix("    ") {
            Some(below) => entries.last_mut().expect("a line above it").below.push(below),
            None => entries.push(Entry { head: line, below: Vec::new() }),
        }
    }
    entries
}

/// The name in a prototype.
pub fn name_of(prototype: &str) -> &str {
    let front = prototype.split('(').next().unwrap_or_default();
    front.rsplit([' ', '*']).next().unwrap_or_default()
}

fn comment(out: &mut String, indent: &str, words: &str) {
    let mut line = format!("{indent}/*");
    for word in words.split(' ') {
        if line.len() + 1 + word.len() > WIDTH - 3 {
            out.push_str(&line);
            out.push('\n');
            line = format!("{indent} *");
        }
        line.push(' ');
        line.push_str(word);
    }
    writeln!(out, "{line} */").unwrap();
}

fn declaration(out: &mut String, text: &str) {
    let text = format!("{text};");
    if text.len() <= WIDTH {
        writeln!(out, "{text}").unwrap();
        return;
    }
    let (front, parameters) = text.split_once('(').expect("a list of parameters");
    writeln!(out, "{front}(\n    {}", parameters.replace(", ", ",\n    ")).unwrap();
}

/// The header.
pub fn header() -> String {
    let mut out = String::from(
        "/* instanton_store.h: the store of Instanton, for servers and readers in C.\n\
         \x20* Written from a table by a generator: change that, not this file.\n\
         \x20*\n\
         \x20* A job belongs to one writer (instanton_job_), which describes it, publishes what its processes post, and hands\n\
         \x20* over the memory. A view (instanton_view_) reads that memory in another process. Every function that returns an\n\
         \x20* int returns INSTANTON_SUCCESS or one of the errors below; what a function gives is untouched when it fails.\n\
         \x20* Statuses, types of values and struct pmix_value are those of the PMIx Standard (pmix_common.h), which need not\n\
         \x20* be included. Every structure begins with its size, which its INSTANTON_..._INIT sets. */\n\
         #ifndef INSTANTON_STORE_H\n#define INSTANTON_STORE_H\n\n\
         #include <stddef.h>\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n\
         struct pmix_value;\n",
    );
    for handle in ["job", "view", "guard"] {
        writeln!(out, "typedef struct instanton_{handle}_t instanton_{handle}_t;").unwrap();
    }
    out.push('\n');
    for Entry { head, .. } in section("constants") {
        let [name, number, what] = head.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{head}") };
        comment(&mut out, "", what);
        let number = if number.starts_with('-') { format!("({number})") } else { number.to_owned() };
        writeln!(out, "#define INSTANTON_{name} {number}").unwrap();
    }
    for Entry { head, below } in section("structs") {
        let (name, what) = head.split_once(' ').expect("a name and what it is");
        out.push('\n');
        comment(&mut out, "", what);
        writeln!(out, "typedef struct {name} {{").unwrap();
        below.iter().for_each(|member| writeln!(out, "    {member};").unwrap());
        writeln!(out, "}} {name};").unwrap();
        let initial = match below.get(1) {
            Some(&"uint32_t version") => "INSTANTON_STORE_VERSION",
            _ => "0",
        };
        let macro_name = name.trim_end_matches("_t").to_uppercase();
        let rest = below.iter().skip(2).map(|member| match *member {
            "int page" => ", -1",
            "instanton_value_t value" => ", INSTANTON_VALUE_INIT",
            _ => ", 0",
        });
        writeln!(out, "#define {macro_name}_INIT {{ sizeof({name}), {initial}{} }}", rest.collect::<String>()).unwrap();
    }
    for Entry { head, below } in section("callbacks") {
        out.push('\n');
        comment(&mut out, "", &below.join(" "));
        declaration(&mut out, &format!("typedef {head}"));
    }
    for Entry { head, below } in section("functions") {
        out.push('\n');
        comment(&mut out, "", &below.join(" "));
        declaration(&mut out, head);
    }
    out + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n"
}

/// The exported symbols, one a line.
pub fn exports() -> String {
    let mut names: Vec<&str> = section("functions").iter().map(|entry| name_of(entry.head)).collect();
    names.sort_unstable();
    names.join("\n") + "\n"
}

/// A manual page for each function, under its file name.
#[allow(dead_code, reason = "the tests use the rest")]
pub fn pages() -> Vec<(String, String)> {
    let page = |Entry { head, below }: &Entry| {
        let name = name_of(head);
        let brief = below[0].split(['.', ';', ':']).next().unwrap_or_default();
        let (what, thread): (Vec<&str>, Vec<&str>) = below.iter().partition(|line| !line.starts_with("Thread: "));
        let mut text = format!(".TH {name} 3 \"\" \"Instanton\" \"Store\"\n.SH NAME\n{name} \\- {brief}\n");
        let prototype = head.replace(", ", ",\n\\ \\ \\ \\ ");
        write!(text, ".SH SYNOPSIS\n.nf\n.B #include <instanton_store.h>\n.sp\n{prototype};\n.fi\n").unwrap();
        write!(text, ".SH DESCRIPTION\n{}\n", what.join("\n")).unwrap();
        write!(text, ".SH THREADS\n{}\n", thread.join("\n").replace("Thread: ", "")).unwrap();
        if head.starts_with("int ") {
            text += ".SH RETURN VALUE\n.B INSTANTON_SUCCESS\n(0), or a negative status, for which\n";
            text += ".BR instanton_store_message (3)\nhas the words.\n";
        }
        text += ".SH SEE ALSO\n.BR instanton_store (7)\n";
        (format!("{name}.3"), text)
    };
    section("functions").iter().map(page).collect()
}
