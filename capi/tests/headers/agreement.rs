//! Our headers beside real ones, name by name: constants and keys have the same values of the same types, functions and
//! types of functions the same declarations, structures the same members in the same places, macros as many parameters.
//!
//! A name that only an older release's headers have is missing in ours. One that only a newer release's have is news.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::generate;
use crate::real::{self, Headers};

/// The release that ours agree with.
const OURS: [u32; 3] = [6, 1, 0];

/// Allowed differences: from which releases on and before which others, the name, and why.
const KNOWN: [([u32; 2], [u32; 2], &str, &str); 19] = [
    ([0, 0], [9, 9], "PMIX_VERSION_MAJOR", "says which release it is"),
    ([0, 0], [9, 9], "PMIX_VERSION_MINOR", "says which release it is"),
    ([0, 0], [9, 9], "PMIX_VERSION_RELEASE", "says which release it is"),
    ([0, 0], [9, 9], "PMIX_NUMERIC_VERSION", "says which release it is"),
    ([5, 0], [6, 0], "PMIX_CAP_BASE", "was a bit, and became a number"),
    ([5, 0], [6, 0], "PMIX_CAPABILITIES", "had that bit alone"),
    ([4, 2], [6, 1], "PMIX_PROC_STATS_STATIC_INIT", "is no C: a comma is missing"),
    ([4, 3], [6, 1], "PMIx_Fabric_construct", "was declared for another structure by mistake"),
    ([4, 0], [6, 1], "pmix_server_module_t", "has grown"),
    ([5, 0], [6, 1], "pmix_server_module_t.session_control", "others were put in front of it"),
    ([7, 0], [9, 9], "PMIX_ERR_LOST_PRECISION", "got a number of its own"),
    ([7, 0], [9, 9], "PMIX_ERR_CHANGE_SIGN", "got a number of its own"),
    ([7, 0], [9, 9], "PMIX_FABRIC_DEVICE_COORDINATES", "got a key of its own"),
    ([7, 0], [9, 9], "PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT", "got a key of its own"),
    ([7, 0], [9, 9], "PMIX_PROGRESS_THREAD_NAME", "got a key of its own"),
    ([7, 0], [9, 9], "PMIX_QUERY_SUPPORTED_QUALIFIERS", "got a key of its own"),
    ([7, 0], [9, 9], "PMIX_DEVICE_DIST_STATIC_INIT", "begins with what is unknown, not with nothing"),
    ([7, 0], [9, 9], "PMIX_FABRIC_STATIC_INIT", "begins with what is unknown, not with nothing"),
    ([7, 0], [9, 9], "PMIX_NODE_PID_STATIC_INIT", "begins with what is unknown, not with nothing"),
];

/// Returns the names that may differ in a release.
fn known(version: [u32; 3]) -> BTreeSet<&'static str> {
    let there = [version[0], version[1]];
    KNOWN.iter().filter(|(from, before, ..)| *from <= there && there < *before).map(|(_, _, name, _)| *name).collect()
}

/// Returns the preprocessor's output for headers, or its list of their macros.
fn passed(folder: &Path, flags: &[&str]) -> String {
    let mut command = Command::new("cc");
    command.args(["-E", "-P", "-I"]).arg(folder).args(["-include", "pmix_tool.h", "-include", "pmix_server.h"]);
    let output = command.args(flags).args(["-xc", "/dev/null"]).output().expect("a compiler");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The names in some headers.
struct Names {
    /// Macros without parameters that stand for something, and enumerators.
    values: BTreeSet<String>,
    /// Macros with parameters, and how many.
    macros: BTreeMap<String, usize>,
    functions: BTreeSet<String>,
    types: BTreeSet<String>,
    /// The declarations, for a look inside structures.
    text: String,
}

impl Names {
    fn of(folder: &Path) -> Names {
        let text = passed(folder, &[]);
        let (mut values, mut macros) = (BTreeSet::new(), BTreeMap::new());
        for line in passed(folder, &["-dM"]).lines().filter_map(|line| line.strip_prefix("#define PMIX_")) {
            let (name, rest) = line.split_at(line.find(|c| !is_word(c)).unwrap_or(line.len()));
            if let Some((parameters, _)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
                macros.insert(format!("PMIX_{name}"), parameters.split(',').count());
            } else if !rest.trim().is_empty() && name != "EXPORT" {
                values.insert(format!("PMIX_{name}"));
            }
        }
        for body in text.split("enum").skip(1).filter_map(|part| part.split_once('{')?.1.split_once('}')) {
            let names = body.0.split(',').filter_map(|member| member.split_whitespace().next());
            values.extend(names.filter(|name| name.starts_with("PMIX_")).map(String::from));
        }
        let words = |prefix: &str| -> BTreeSet<String> {
            text.split(|c| !is_word(c)).filter(|word| word.starts_with(prefix)).map(String::from).collect()
        };
        let types = words("pmix_").into_iter().filter(|word| word.ends_with("_t")).collect();
        Names { values, macros, functions: words("PMIx_"), types, text }
    }

    /// The members of a structure, those of its unions too.
    fn members(&self, tag: &str) -> BTreeSet<String> {
        let Some((_, after)) = self.text.split_once(&format!("struct {tag} {{")) else { return BTreeSet::new() };
        let mut depth = 1;
        let end = after.find(|c| {
            depth += (c == '{') as i32 - (c == '}') as i32;
            depth == 0
        });
        let names = after[..end.expect("an end")].split([';', '{', '}']);
        let names = names.filter_map(|one| one.split('[').next()?.rsplit(|c| !is_word(c)).next());
        names.filter(|name| !["", "union"].contains(name)).map(String::from).collect()
    }
}

fn source(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("a file");
    path
}

/// The values of macros without parameters and of enumerators: of which type, and what.
fn values(folder: &Path, names: &BTreeSet<String>, version: &str) -> BTreeMap<String, (String, String)> {
    let mut text = String::from(
        "#include <pmix_tool.h>\n#include <pmix_server.h>\n#include <stdio.h>\n\
         static void text(const char *name, const char *s) { printf(\"%s text %s\\n\", name, s); }\n\
         static void i(const char *name, int v) { printf(\"%s int %d\\n\", name, v); }\n\
         static void u(const char *name, unsigned v) { printf(\"%s unsigned %u\\n\", name, v); }\n\
         static void l(const char *name, long v) { printf(\"%s long %ld\\n\", name, v); }\n\
         static void ul(const char *name, unsigned long v) { printf(\"%s unsigned-long %lu\\n\", name, v); }\n\
         static void b(const char *name, const unsigned char *p, size_t n) {\n\
             printf(\"%s bytes \", name);\n    while (n--) { printf(\"%02x\", *p++); }\n    printf(\"\\n\");\n}\n\
         #define SHOW(x) _Generic((x), char *: text, int: i, unsigned: u, long: l, unsigned long: ul)(#x, (x))\n\
         #define EMPTY(t, x) do { static const t e = x; b(#x, (const void *)&e, sizeof(e)); } while (0)\n\
         int main(void) {\n",
    );
    let structs = generate::structs();
    for name in names {
        if let Some(s) = structs.iter().find(|s| generate::initialiser(s.name) == *name) {
            writeln!(text, "    EMPTY({}, {name});", s.name).unwrap();
        } else if !name.ends_with("_STATIC_INIT") {
            // The macro's name, before it is replaced.
            writeln!(text, "    SHOW({name});").unwrap();
        }
    }
    let path = source(&format!("values_{version}.c"), &(text + "    return 0;\n}\n"));
    let program = path.with_extension("");
    let output =
        Command::new("cc").arg("-I").arg(folder).arg(&path).arg("-o").arg(&program).output().expect("a compiler");
    assert!(output.status.success(), "{version}: {}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&program).output().expect("a run");
    let lines = String::from_utf8(output.stdout).expect("text");
    let parts = lines.lines().map(|line| line.splitn(3, ' ').collect::<Vec<_>>());
    parts.map(|parts| (parts[0].to_string(), (parts[1].to_string(), parts[2].to_string()))).collect()
}

/// Our declarations once more, for a compiler that has seen theirs: it takes no second one that differs.
fn declarations(theirs: &Names, known: &BTreeSet<&str>) -> String {
    let mut text = String::from("#include <pmix_tool.h>\n#include <pmix_server.h>\n#include <stddef.h>\n");
    let counts =
        |name: &&str| !known.contains(name) && (theirs.types.contains(*name) || theirs.functions.contains(*name));
    for [name, ty] in generate::plain_types().into_iter().filter(|[name, _]| counts(name)) {
        writeln!(text, "typedef {};", generate::declare(ty, name)).unwrap();
    }
    for callback in generate::callbacks() {
        let name = callback.head.split_once("(*").and_then(|(_, rest)| rest.split(')').next());
        if name.is_some_and(|name| counts(&name)) {
            writeln!(text, "typedef {};", callback.head).unwrap();
        }
    }
    for function in generate::functions() {
        let name = generate::name_of(function.head);
        if counts(&name) {
            writeln!(text, "extern {};", function.head).unwrap();
        }
    }
    for s in generate::structs().iter().filter(|s| theirs.types.contains(s.name)) {
        if counts(&s.name) {
            writeln!(text, "_Static_assert(sizeof({0}) == {1}, \"{0}\");", s.name, s.size).unwrap();
        }
        let members = theirs.members(s.tag);
        let same = |at: usize, path: String, ty: &str| {
            format!(
                "_Static_assert(offsetof({0}, {path}) == {at}, \"{0}.{path}\");\n\
                 extern __typeof__((({0} *)0)->{path}) *{0}_{1};\nextern {2};\n",
                s.name,
                path.replace('.', "_"),
                match ty.split_once('[') {
                    Some((of, count)) => format!("{of} (*{}_{})[{count}", s.name, path.replace('.', "_")),
                    None => format!("{ty} *{}_{}", s.name, path.replace('.', "_")),
                }
            )
        };
        for (at, member, ty) in &s.members {
            if *ty == "union" {
                let both = s.union.iter().filter(|(name, _)| members.contains(*name));
                both.for_each(|(name, ty)| text += &same(*at, format!("{member}.{name}"), ty));
            } else if members.contains(*member) && !known.contains(format!("{}.{member}", s.name).as_str()) {
                text += &same(*at, member.to_string(), ty);
            }
        }
    }
    text
}

/// Returns the names that are in theirs and not in ours.
fn only_theirs(ours: &Names, theirs: &Names) -> BTreeSet<String> {
    let macros = |names: &Names| names.macros.keys().cloned().collect::<BTreeSet<_>>();
    let mut missing: BTreeSet<String> = &theirs.values - &ours.values;
    missing.extend(&macros(theirs) - &macros(ours));
    missing.extend(&theirs.functions - &ours.functions);
    missing.extend(&theirs.types - &ours.types);
    for s in generate::structs() {
        let more = &theirs.members(s.tag) - &ours.members(s.tag);
        missing.extend(more.iter().map(|member| format!("{}.{member}", s.name)));
    }
    missing
}

/// Compares ours with those of one release.
fn agree(ours: &Names, there: &Headers) {
    let (release, known, theirs) = (there.name(), known(there.version), Names::of(&there.folder));
    let missing = only_theirs(ours, &theirs);
    if there.version > OURS {
        println!("only in {release}: {missing:?}");
    } else {
        assert!(missing.is_empty(), "only in {release}: {missing:?}");
    }

    let mut both: BTreeSet<String> = &ours.values & &theirs.values;
    both.retain(|name| name != "PMIX_PROC_STATS_STATIC_INIT" || !known.contains(name.as_str()));
    let (here, there_too) = (values(&super::folder("include"), &both, "ours"), values(&there.folder, &both, &release));
    // A constant of another type is another one, whatever it says.
    let differ = both.iter().filter(|name| {
        here[*name].0 != there_too[*name].0 || here[*name] != there_too[*name] && !known.contains(name.as_str())
    });
    let differ: Vec<_> =
        differ.map(|name| format!("{name}: {:?}, {release} {:?}", here[name], there_too[name])).collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));

    for (name, parameters) in &theirs.macros {
        assert!(ours.macros.get(name).is_none_or(|here| here == parameters), "{release}: {parameters} for {name}");
    }

    let text = declarations(&theirs, &known);
    let path = source(&format!("declarations_{release}.c"), &text);
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-w", "-fsyntax-only", "-I"]).arg(&there.folder).arg(path);
    let output = command.output().expect("a compiler");
    assert!(output.status.success(), "{release}: {}", String::from_utf8_lossy(&output.stderr));
    println!("{release}: {} values, {} functions, {} types", both.len(), theirs.functions.len(), theirs.types.len());
}

#[test]
fn they_agree_with_real_ones() {
    let ours = Names::of(&super::folder("include"));
    match real::installed() {
        Some(there) => agree(&ours, &there),
        None => println!("SKIPPED they_agree_with_real_ones: no stock headers are installed"),
    }
    match real::fetched() {
        Ok(there) => there.iter().for_each(|there| agree(&ours, there)),
        Err(reason) => println!("SKIPPED they_agree_with_real_ones: {reason}"),
    }
}
