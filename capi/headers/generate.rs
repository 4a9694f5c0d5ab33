//! Writes the public headers from the tables beside this file and those of the data model.
//!
//! The tables hold what a program compiled against the newest release (6.1) must find: names, values, layouts and
//! signatures, and beside them whatever older and later headers declare that the library serves as well. Everything
//! else in a header (order, grouping, comments) is decided here. `cargo run -p instanton-capi --example headers` writes
//! them into `capi/include`; a test fails when they differ from what the tables give.
use std::fmt::Write as _;

const FUNCTIONS: &str = include_str!("functions.txt");
const CALLBACKS: &str = include_str!("callbacks.txt");
const STRUCTS: &str = include_str!("structs.txt");
const SCALARS: &str = include_str!("scalars.txt");
const MACROS: &str = include_str!("macros.txt");
const STATUS: &str = include_str!("../../src/data/tables/status.txt");
const TYPES: &str = include_str!("../../src/data/tables/types.txt");
const CONSTANTS: &str = include_str!("../../src/data/tables/constants.txt");
const ATTRIBUTES: &str = include_str!("../../src/data/tables/attributes.txt");

/// Headers as wide as this, where C lets a line end.
const WIDTH: usize = 110;

/// The release whose headers these stand in for: programs test it to know what they may use.
const VERSION: [u32; 3] = [6, 1, 0];

/// Capabilities of a release that programs ask for by name (`PMIX_CAP_...`).
const CAPABILITIES: [&str; 7] = ["BASE", "LTO", "INMEMHELP", "UPCALLS2", "STOP_PRGTHRD", "GET_NUMBER_FN", "REGEX2"];

/// Functions that every release has within its headers: nothing of the library is called.
const INLINES: &str = "
/* Memory of the C library, which this one gives and takes everywhere. */
static inline void *pmix_malloc(size_t size) {
    return malloc(size);
}
static inline void *pmix_calloc(size_t n, size_t size) {
    return calloc(n, size);
}
static inline void pmix_free(void *place) {
    free(place);
}

/* Copies at most so many bytes of a text, and ends it: the place has room for one more. */
static inline void pmix_strncpy(char *to, const char *from, size_t most) {
    size_t n = 0;
    while (n < most && '\\0' != from[n]) {
        to[n] = from[n];
        n++;
    }
    to[n] = '\\0';
}

/* Bytes of a key and of a namespace, which need not end. */
static inline size_t pmix_keylen(const char *key) {
    size_t n = 0;
    while (NULL != key && n <= PMIX_MAX_KEYLEN && '\\0' != key[n]) {
        n++;
    }
    return n;
}
static inline size_t pmix_nslen(const char *nspace) {
    size_t n = 0;
    while (NULL != nspace && n <= PMIX_MAX_NSLEN && '\\0' != nspace[n]) {
        n++;
    }
    return n;
}
";

/// A head line of a table and the indented lines below it.
pub struct Entry {
    /// Section in brackets above it: the header it belongs to.
    pub section: &'static str,
    /// The line.
    pub head: &'static str,
    /// The lines below it, without the indentation they share.
    pub lines: Vec<&'static str>,
}

fn entries(table: &'static str) -> Vec<Entry> {
    let (mut section, mut entries) = ("", Vec::<Entry>::new());
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some(below) = line.strip_prefix("    ") {
            entries.last_mut().expect("a line above it").lines.push(below);
        } else {
            entries.push(Entry { section, head: line, lines: Vec::new() });
        }
    }
    entries
}

fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| line.split(' ').collect())
}

/// A structure as its table has it.
pub struct Struct {
    /// Its name.
    pub name: &'static str,
    /// The name behind `struct`.
    pub tag: &'static str,
    /// Bytes on LP64.
    pub size: usize,
    what: &'static str,
    /// Offset on LP64, name and type; the type of the one union is `union`.
    pub members: Vec<(usize, &'static str, &'static str)>,
    /// Name and type of what the union may be.
    pub union: Vec<(&'static str, &'static str)>,
}

/// Every structure, those first that others contain.
pub fn structs() -> Vec<Struct> {
    let parse = |entry: Entry| {
        let [name, tag, size, what] = entry.head.splitn(4, ' ').collect::<Vec<_>>()[..] else {
            panic!("{}: name, tag, bytes and what it is", entry.head)
        };
        let (mut members, mut union) = (Vec::new(), Vec::new());
        for line in entry.lines {
            let [at, name, ty] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                panic!("{line}: offset, name and type")
            };
            match at {
                "+" => union.push((name, ty)),
                at => members.push((at.parse().expect("an offset"), name, ty)),
            }
        }
        Struct { name, tag, size: size.parse().expect("a size"), what, members, union }
    };
    entries(STRUCTS).into_iter().map(parse).collect()
}

/// Every function: prototypes and what they do.
pub fn functions() -> Vec<Entry> {
    entries(FUNCTIONS)
}

/// The name in a prototype, in the head of a macro.
pub fn name_of(head: &'static str) -> &'static str {
    let before = &head[..head.find('(').expect("a list of parameters")];
    &before[before.rfind([' ', '*']).map_or(0, |at| at + 1)..]
}

/// Every function-like macro: name and parameters, then its expansion.
pub fn macros() -> Vec<Entry> {
    entries(MACROS)
}

/// Every type of functions: its declaration, and what it is for.
pub fn callbacks() -> Vec<Entry> {
    entries(CALLBACKS)
}

/// `type name`, the way C writes it.
pub fn declare(ty: &str, name: &str) -> String {
    match ty.split_once('[') {
        Some((of, count)) => format!("{of} {name}[{count}"),
        None if ty.ends_with('*') => format!("{ty}{name}"),
        None => format!("{ty} {name}"),
    }
}

/// A declaration in as many lines as it needs, broken behind commas.
fn wrapped(text: &str) -> String {
    let (mut out, mut width) = (String::new(), 0);
    for part in text.split_inclusive(", ") {
        if width + part.trim_end().len() > WIDTH && width > 0 {
            out.truncate(out.trim_end().len());
            out.push_str("\n    ");
            width = 4;
        }
        out.push_str(part);
        width += part.len();
    }
    out
}

/// Names that a header defines when it is read, so that it is read once. Programs that have other releases' headers
/// beside these, or that ask whether one was read, go by the names that those have.
fn guard(name: &str) -> &'static str {
    match name {
        "pmix.h" => "PMIx_H",
        "pmix_common.h" => "PMIx_COMMON_H",
        "pmix_deprecated.h" => "PMIx_DEPRECATED_H",
        "pmix_server.h" => "PMIx_SERVER_API_H",
        "pmix_tool.h" => "PMIx_TOOL_API_H",
        "pmix_version.h" => "PMIx_VERSION_H",
        other => panic!("{other} is no public header"),
    }
}

/// A header: what it is for, what it includes, and what it declares.
fn header(name: &str, what: &str, includes: &[&str], body: &str, after: &str) -> (String, String) {
    let guard = guard(name);
    let mut text =
        format!("/* {name}: {what}\n * Written from tables by a generator: change those, not this file. */\n");
    write!(text, "#ifndef {guard}\n#define {guard}\n\n").unwrap();
    includes.iter().for_each(|include| writeln!(text, "#include {include}").unwrap());
    write!(text, "\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n{body}\n#ifdef __cplusplus\n}}\n#endif\n").unwrap();
    write!(text, "{after}\n#endif\n").unwrap();
    (name.to_string(), text)
}

/// The functions or types of functions of one header.
fn declarations(entries: &[Entry], section: &str, prefix: &str) -> String {
    let mut out = String::new();
    for entry in entries.iter().filter(|entry| entry.section == section) {
        write!(out, "\n/* {} */\n{};\n", entry.lines.join(" "), wrapped(&format!("{prefix} {}", entry.head))).unwrap();
    }
    out
}

/// A number as C reads it with the type that programs expect: `int`, and `unsigned` where that is too small.
fn number(text: &str) -> String {
    let value: i64 = text.parse().expect("a number");
    match value {
        ..0 => format!("({value})"),
        0..=0x7fff_ffff => value.to_string(),
        _ => format!("{value:#x}U"),
    }
}

fn define(out: &mut String, name: &str, value: &str) {
    writeln!(out, "#define PMIX_{name:<38} {value}").unwrap();
}

fn group(out: &mut String, group: &str) {
    for row in rows(CONSTANTS).filter(|row| row[0] == group) {
        define(out, row[1], &number(row[2]));
    }
}

/// The types that are numbers or texts, but for enumerations: name and type.
pub fn plain_types() -> Vec<[&'static str; 2]> {
    rows(SCALARS).map(|row| [row[0], row[1]]).filter(|[_, ty]| *ty != "enum").collect()
}

/// Every type that is a number or text, with its constants.
fn scalars() -> String {
    let mut out = String::from("\n");
    group(&mut out, "limit");
    for row in SCALARS.lines().filter(|line| !line.starts_with('#')) {
        let [name, ty, of, what] = row.splitn(4, ' ').collect::<Vec<_>>()[..] else {
            panic!("{row}: name, type, group and what it is")
        };
        write!(out, "\n/* {what} */\n").unwrap();
        if ty == "enum" {
            let members: Vec<_> = rows(CONSTANTS)
                .filter(|row| row[0] == of)
                .map(|row| format!("    PMIX_{} = {}", row[1], number(row[2])))
                .collect();
            writeln!(out, "typedef enum {{\n{}\n}} {name};", members.join(",\n")).unwrap();
        } else {
            writeln!(out, "typedef {};", declare(ty, name)).unwrap();
            group(&mut out, of);
        }
        match name {
            "pmix_status_t" => rows(STATUS).for_each(|row| define(&mut out, row[0], &number(row[1]))),
            "pmix_data_type_t" => {
                rows(TYPES).for_each(|row| define(&mut out, row[0], &number(row[1])));
                define(&mut out, "DATA_TYPE_MAX", "500");
            }
            _ => (),
        }
    }
    out.push_str("\n/* Every application of a job. */\n");
    group(&mut out, "appnum");
    out
}

fn structures() -> String {
    let structs = structs();
    let common = |s: &&Struct| s.name != "pmix_server_module_t";
    let mut out = String::from("\n");
    for s in structs.iter().filter(common) {
        writeln!(out, "typedef struct {} {};", s.tag, s.name).unwrap();
    }
    structs.iter().filter(common).for_each(|s| out += &structure(s));
    out
}

fn structure(s: &Struct) -> String {
    let mut out = format!("\n/* {} */\nstruct {} {{\n", s.what, s.tag);
    for (_, name, ty) in &s.members {
        if *ty == "union" {
            out.push_str("    union {\n");
            for (name, ty) in &s.union {
                writeln!(out, "        {};", declare(ty, name)).unwrap();
            }
            writeln!(out, "    }} {name};").unwrap();
        } else {
            writeln!(out, "    {};", declare(ty, name)).unwrap();
        }
    }
    out + "};\n"
}

/// The macro that makes an empty object of a structure.
pub fn initialiser(name: &str) -> String {
    let name = match name {
        "pmix_device_distance_t" => "DEVICE_DIST".to_string(),
        "pmix_pdata_t" => "LOOKUP".to_string(),
        other => other.trim_start_matches("pmix_").trim_end_matches("_t").to_uppercase(),
    };
    format!("PMIX_{name}_STATIC_INIT")
}

/// `PMIX_..._STATIC_INIT`: every member in order, which C and C++ both take without a word.
fn initialisers() -> String {
    let mut out = String::from(
        "\n/* Initialisers: empty objects. */\n\
         #ifdef __cplusplus\n#define PMIX_VALUE_STATIC_INIT { PMIX_UNDEF, {} }\n\
         #else\n#define PMIX_VALUE_STATIC_INIT { PMIX_UNDEF, { .envar = PMIX_ENVAR_STATIC_INIT } }\n#endif\n",
    );
    let structs = structs();
    for s in structs.iter().filter(|s| !["pmix_value_t", "pmix_server_module_t"].contains(&s.name)) {
        let empty = |ty: &str| match ty {
            "pmix_rank_t" => "PMIX_RANK_UNDEF".to_string(),
            "pmix_nspace_t" | "pmix_key_t" => "{ 0 }".to_string(),
            "struct timeval" => "{ 0, 0 }".to_string(),
            ty if ty.ends_with('*') => "NULL".to_string(),
            ty if structs.iter().any(|s| s.name == ty) => initialiser(ty),
            _ => "0".to_string(),
        };
        let members: Vec<_> = s.members.iter().map(|(_, _, ty)| empty(ty)).collect();
        let text = format!("#define {} {{ {} }}", initialiser(s.name), members.join(", "));
        writeln!(out, "{}", wrapped(&text).replace('\n', " \\\n")).unwrap();
    }
    out
}

/// The attributes, each with the type of its value.
fn attributes() -> String {
    let mut out = String::from("\n/* Attributes: keys, and the types of their values where there is one. */\n");
    for row in rows(ATTRIBUTES) {
        let ty = if row[2] == "-" { String::new() } else { format!(" /* PMIX_{} */", row[2]) };
        define(&mut out, row[0], &format!("\"{}\"{ty}", row[1]));
    }
    out.push_str("\n/* Names of environment variables. */\n");
    for name in ["KEEPALIVE_PIPE", "LAUNCHER_RNDZ_FILE", "LAUNCHER_RNDZ_URI"] {
        define(&mut out, name, &format!("\"PMIX_{name}\""));
    }
    out
}

fn helpers() -> String {
    let mut out = String::from("\n/* Macros that stand for the functions above. What they free they set to NULL. */\n");
    for entry in macros() {
        match entry.head.split_once("  ") {
            Some((name, expansion)) => {
                let one = format!("#define {name} {expansion}");
                let two = || format!("#define {name} \\\n    {expansion}");
                writeln!(out, "{}", if one.len() <= WIDTH { one } else { two() }).unwrap();
            }
            None => {
                let lines: String = entry.lines.iter().map(|line| format!("        {line} \\\n")).collect();
                writeln!(out, "#define {} \\\n    do {{ \\\n{lines}    }} while (0)", entry.head).unwrap();
            }
        }
    }
    out
}

fn version() -> String {
    let [major, minor, release] = VERSION;
    let guard = guard("pmix_version.h");
    let mut out = format!(
        "/* pmix_version.h: the release of the public headers that these agree with.\n\
         \x20* Written from tables by a generator: change those, not this file. */\n\
         #ifndef {guard}\n#define {guard}\n\n",
    );
    // Long, as everywhere: programs print them so.
    define(&mut out, "VERSION_MAJOR", &format!("{major}L"));
    define(&mut out, "VERSION_MINOR", &format!("{minor}L"));
    define(&mut out, "VERSION_RELEASE", &format!("{release}L"));
    define(&mut out, "NUMERIC_VERSION", &format!("{:#010x}", major << 16 | minor << 8 | release));
    out.push_str("\n/* Capabilities of that release, for programs that ask. */\n");
    define(&mut out, "CAPABILITIES", "3");
    for (number, name) in CAPABILITIES.iter().enumerate() {
        define(&mut out, &format!("CAP_{name}"), &number.to_string());
    }
    out + "\n#endif\n"
}

fn visibility() -> String {
    let mut out = String::from("\n");
    group(&mut out, "common");
    out + "#if PMIX_HAVE_VISIBILITY\n#define PMIX_EXPORT __attribute__((visibility(\"default\")))\n\
           #else\n#define PMIX_EXPORT\n#endif\n"
}

/// The headers: names and contents.
pub fn headers() -> Vec<(String, String)> {
    let (functions, callbacks) = (functions(), callbacks());
    let exported = |section| declarations(&functions, section, "PMIX_EXPORT");
    let types = |section| declarations(&callbacks, section, "typedef");
    let structs = structs();
    let module = structs.iter().find(|s| s.name == "pmix_server_module_t").expect("the table has it");
    let system = [
        "ctype",
        "stdbool",
        "stddef",
        "stdint",
        "stdio",
        "stdlib",
        "string",
        "sys/time",
        "sys/types",
        "time",
        "unistd",
    ];
    let system: Vec<_> = system.iter().map(|name| format!("<{name}.h>")).collect();
    let common: Vec<_> = system.iter().map(String::as_str).chain(["\"pmix_version.h\""]).collect();
    let module = format!("{}typedef struct {} {};\n", structure(module), module.tag, module.name);
    vec![
        ("pmix_version.h".to_string(), version()),
        header(
            "pmix_common.h",
            "types, constants and attributes.",
            &common,
            &[
                visibility(),
                scalars(),
                attributes(),
                structures(),
                initialisers(),
                INLINES.to_string(),
                types("pmix_common.h"),
            ]
            .concat(),
            "\n#include \"pmix_deprecated.h\"\n",
        ),
        header(
            "pmix_deprecated.h",
            "helpers for the types, functions and macros.",
            &["\"pmix_common.h\""],
            &[exported("pmix_deprecated.h"), helpers()].concat(),
            "",
        ),
        header("pmix.h", "what every process may call.", &["\"pmix_common.h\""], &exported("pmix.h"), ""),
        header(
            "pmix_server.h",
            "what hosts call, and what they are called for.",
            &["\"pmix_common.h\""],
            &[types("pmix_server.h"), module, exported("pmix_server.h")].concat(),
            "",
        ),
        header("pmix_tool.h", "what tools call.", &["\"pmix.h\"", "\"pmix_server.h\""], &exported("pmix_tool.h"), ""),
    ]
}
