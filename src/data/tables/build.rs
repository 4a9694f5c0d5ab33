//! Turns the tables beside this file into Rust constants, and refuses tables that contradict themselves.
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, process};

const TABLES: &str = "src/data/tables";

/// A line of a table.
struct Row {
    /// File and line, for whoever made a mistake there.
    at: String,
    fields: Vec<String>,
}

impl Row {
    fn field(&self, index: usize) -> &str {
        match self.fields.get(index) {
            Some(field) => field,
            None => self.fail(&format!("{} fields where at least {} belong", self.fields.len(), index + 1)),
        }
    }

    fn number<T: std::str::FromStr>(&self, index: usize) -> T {
        let field = self.field(index);
        field.parse().unwrap_or_else(|_| self.fail(&format!("`{field}` is no number of this kind")))
    }

    /// Returns whether the name is only another one for a number or key that has a better name.
    fn is_alias(&self, index: usize) -> bool {
        match self.fields.get(index).map(String::as_str) {
            None => false,
            Some("=") => true,
            Some(other) => self.fail(&format!("`{other}` where only a = may stand")),
        }
    }

    fn fail(&self, what: &str) -> ! {
        println!("cargo::error={}: {what}", self.at);
        process::exit(1)
    }
}

fn rows(name: &str) -> Vec<Row> {
    let path = Path::new(TABLES).join(name);
    println!("cargo::rerun-if-changed={}", path.display());
    let text = fs::read_to_string(&path).unwrap_or_else(|error| {
        println!("cargo::error={}: {error}", path.display());
        process::exit(1)
    });
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| Row {
            at: format!("{}:{}", path.display(), number + 1),
            fields: line.split_whitespace().map(String::from).collect(),
        })
        .collect()
}

/// All texts of the tables, each once. Tables say where theirs begins: an address would be one more thing
/// for the loader to put right.
struct Texts {
    all: String,
    places: HashMap<String, usize>,
}

impl Texts {
    /// Returns the place of a text.
    fn at(&mut self, text: &str) -> u16 {
        let end = self.all.len();
        let at = *self.places.entry(text.to_owned()).or_insert(end);
        if at == end {
            self.all += text;
            self.all.push('\0');
        }
        u16::try_from(at).expect("less than 64 KiB of texts")
    }

    fn written(&self) -> String {
        format!(
            "static TEXTS: [u8; {}] = *b\"{}\";\n",
            self.all.len(),
            self.all.escape_default().to_string().replace("\\u{0}", "\\0")
        )
    }
}

/// Fails at the first row whose fields `key` stood in an earlier one already.
fn unique<'a>(rows: &'a [Row], key: impl Fn(&'a Row) -> Vec<&'a str>) {
    let mut seen: HashMap<Vec<&str>, &str> = HashMap::new();
    for row in rows {
        if let Some(first) = seen.insert(key(row), &row.at) {
            row.fail(&format!("`{}` stands in {first} already", key(row).join(" ")));
        }
    }
}

/// Fails unless every alias stands for something, and only aliases share.
fn aliases(rows: &[Row], value: usize, mark: usize) {
    let proper: Vec<&Row> = rows.iter().filter(|row| !row.is_alias(mark)).collect();
    let mut values = HashSet::new();
    for row in &proper {
        if !values.insert(row.field(value)) {
            row.fail(&format!("`{}` has a name already: mark one of the two with =", row.field(value)));
        }
    }
    if let Some(row) = rows.iter().find(|row| row.is_alias(mark) && !values.contains(row.field(value))) {
        row.fail(&format!("an alias of `{}`, which has no other name", row.field(value)));
    }
}

/// Status codes.
fn status(texts: &mut Texts) -> String {
    let rows = rows("status.txt");
    unique(&rows, |row| vec![row.field(0)]);
    aliases(&rows, 1, 2);
    let mut out = String::from("impl Status {\n");
    let mut names = String::from("/// Number, name, and whether the name is an alias.\n");
    names += "static STATUS_NAMES: &[(i32, u16, bool)] = &[\n";
    for row in &rows {
        let (name, value) = (row.field(0), row.number::<i32>(1));
        writeln!(out, "/// `PMIX_{name}` ({value}).\npub const {name}: Status = Status({value});").unwrap();
        writeln!(names, "({value}, {}, {}),", texts.at(&format!("PMIX_{name}")), row.is_alias(2)).unwrap();
    }
    out + "}\n" + &names + "];\n"
}

/// Data types.
fn types(texts: &mut Texts) -> String {
    let rows = rows("types.txt");
    unique(&rows, |row| vec![row.field(0)]);
    unique(&rows, |row| vec![row.field(1)]);
    let mut out = String::from("impl DataType {\n");
    let mut table = String::from("/// Number, name, and bytes of one in C.\n");
    table += "static TYPES: &[(u16, u16, u16)] = &[\n";
    for row in &rows {
        let (name, value, size) = (row.field(0), row.number::<u16>(1), row.number::<u16>(2));
        writeln!(out, "/// `PMIX_{name}` ({value}).\npub const {name}: DataType = DataType({value});").unwrap();
        writeln!(table, "({value}, {}, {size}),", texts.at(&format!("PMIX_{name}"))).unwrap();
    }
    out + "}\n" + &table + "];\n"
}

fn attributes(texts: &mut Texts) -> String {
    let types: HashMap<String, u16> =
        rows("types.txt").iter().map(|row| (row.field(0).to_string(), row.number(1))).collect();
    let mut rows = rows("attributes.txt");
    unique(&rows, |row| vec![row.field(0)]);
    aliases(&rows, 1, 3);
    let mut out = String::new();
    for row in &rows {
        let (name, key, ty) = (row.field(0), row.field(1), row.field(2));
        let shown = match ty {
            "-" => "varies",
            ty if types.contains_key(ty) => ty,
            ty => row.fail(&format!("no data type is called `{ty}`")),
        };
        writeln!(out, "/// `PMIX_{name}`, value: {shown}.\npub const {name}: &str = \"{key}\";").unwrap();
    }
    rows.sort_by(|a, b| (a.field(1), a.is_alias(3)).cmp(&(b.field(1), b.is_alias(3))));
    let mut by_name: Vec<(String, usize)> = Vec::new();
    out += "/// Every attribute: name, key, and the number of the type of its value (0 where it varies). Sorted by key, a key's best\n\
            /// name first.\nstatic ATTRIBUTES: &[(u16, u16, u16)] = &[\n";
    for (index, row) in rows.iter().enumerate() {
        let name = format!("PMIX_{}", row.field(0));
        let number = types.get(row.field(2)).unwrap_or(&0);
        writeln!(out, "({}, {}, {number}),", texts.at(&name), texts.at(row.field(1))).unwrap();
        by_name.push((name, index));
    }
    by_name.sort();
    let by_name: Vec<usize> = by_name.into_iter().map(|(_, index)| index).collect();
    writeln!(out, "];\n/// Their indexes sorted by name.\nstatic BY_NAME: [u16; {}] = {by_name:?};", by_name.len())
        .unwrap();
    out + &numbers(&rows) + &spellings(&rows)
}

/// Places in the table of numbers by hash, and displacements that choose among them.
const PLACES: u64 = 1024;
const DISPLACEMENTS: usize = 256;

/// Returns the place in the table of a key with this hash; as `keys::place`.
fn place(hash: u64, displacement: u16) -> usize {
    (hash.wrapping_add(u64::from(displacement).wrapping_mul(hash >> 32 | 1)) % PLACES) as usize
}

/// A number for each key, and a perfect hash that finds it: the top byte of the key's hash chooses a displacement,
/// which together with the hash chooses a place that no other key has.
fn numbers(sorted: &[Row]) -> String {
    let mut keys: Vec<&Row> = sorted.iter().collect();
    keys.dedup_by_key(|row| row.field(1));
    let first = |key: &&Row| sorted.partition_point(|row| row.field(1) < key.field(1));
    let firsts: Vec<usize> = keys.iter().map(first).collect();
    let mut out = String::from(
        "/// The number of each attribute's key, by the attribute's name. Numbers hold within one build.\n\
         pub mod number {\n",
    );
    for row in sorted {
        let number = keys.binary_search_by_key(&row.field(1), |key| key.field(1)).expect("one of the keys");
        writeln!(out, "/// Of `PMIX_{}`.\npub const {}: u16 = {number};", row.field(0), row.field(0)).unwrap();
    }
    out += "}\n/// Keys by number, each with its hash.\nstatic KEYS: &[(u64, &str)] = &[\n";
    let mut buckets: Vec<Vec<(u64, usize)>> = vec![Vec::new(); DISPLACEMENTS];
    for (number, row) in keys.iter().enumerate() {
        let hash = instanton_layout::hash::hash(row.field(1).as_bytes());
        writeln!(out, "({hash}, \"{}\"),", row.field(1)).unwrap();
        buckets[(hash >> 56) as usize].push((hash, number));
    }
    let mut order: Vec<usize> = (0..DISPLACEMENTS).collect();
    order.sort_by_key(|bucket| std::cmp::Reverse(buckets[*bucket].len()));
    let mut table = vec![u16::MAX; PLACES as usize];
    let mut displacements = [0; DISPLACEMENTS];
    for bucket in order {
        let free = |displacement: u16| {
            let places: HashSet<usize> = buckets[bucket].iter().map(|(hash, _)| place(*hash, displacement)).collect();
            places.len() == buckets[bucket].len() && places.iter().all(|place| table[*place] == u16::MAX)
        };
        let displacement = (0..u16::MAX).find(|displacement| free(*displacement)).expect("room in the table");
        displacements[bucket] = displacement;
        for (hash, number) in &buckets[bucket] {
            table[place(*hash, displacement)] = *number as u16;
        }
    }
    writeln!(
        out,
        "];\n/// The index of the first attribute with each key.\nstatic FIRST: [u16; {}] = {firsts:?};",
        keys.len()
    )
    .unwrap();
    writeln!(out, "const PLACES: u64 = {PLACES};").unwrap();
    writeln!(out, "static DISPLACEMENTS: [u16; {DISPLACEMENTS}] = {displacements:?};").unwrap();
    writeln!(out, "/// Numbers by place; all ones where there is none.\nstatic NUMBERS: [u16; {PLACES}] = {table:?};")
        .unwrap();
    out
}

fn spellings(attributes: &[Row]) -> String {
    let rows = rows("spellings.txt");
    unique(&rows, |row| vec![row.field(0)]);
    let mut out = String::from(
        "/// Keys that some programs spell otherwise, and our spelling.\nstatic SPELLINGS: &[(&str, &str)] = &[\n",
    );
    for row in &rows {
        let (other, ours) = (row.field(0), row.field(1));
        if attributes.iter().any(|attribute| attribute.field(1) == other) {
            row.fail(&format!("`{other}` is the key of an attribute"));
        }
        if !attributes.iter().any(|attribute| attribute.field(1) == ours) {
            row.fail(&format!("`{ours}` is no attribute's key"));
        }
        writeln!(out, "(\"{other}\", \"{ours}\"),").unwrap();
    }
    out + "];\n"
}

/// One module a group: `scope::LOCAL`, `proc_state::RUNNING`, ...
fn constants(rows: &[Row]) -> String {
    let kind = |group: &str| match group {
        "rank" | "info_directives" | "appnum" => "u32",
        "device_type" | "storage_accessibility" | "storage_medium" | "storage_persistence" => "u64",
        "iof_channel" | "locality" | "storage_access_type" => "u16",
        "boolean" | "fabric_operation" | "group_operation" | "group_opt" | "value_cmp" | "common" | "limit" => "i64",
        _ => "u8",
    };
    unique(rows, |row| vec![row.field(1)]);
    let mut groups: Vec<(&str, String)> = Vec::new();
    for row in rows {
        let (group, name, value) = (row.field(0), row.field(1), row.number::<i64>(2));
        let line = format!("/// `PMIX_{name}` ({value}).\npub const {name}: {} = {value};\n", kind(group));
        match groups.iter_mut().find(|(g, _)| *g == group) {
            Some((_, body)) => body.push_str(&line),
            None => groups.push((group, line)),
        }
    }
    groups.iter().fold(String::new(), |out, (group, body)| {
        out + &format!("/// `pmix_{group}` values.\npub mod {group} {{\n{body}}}\n")
    })
}

/// One table of texts a group: `SCOPE`, `PROC_STATE`, ...
fn names(constants: &[Row], texts: &mut Texts) -> String {
    let rows = rows("texts.txt");
    unique(&rows, |row| vec![row.field(0), row.field(1)]);
    let mut out = String::new();
    let mut groups: Vec<&str> = rows.iter().map(|row| row.field(0)).collect();
    groups.dedup();
    for group in groups {
        let mut other = None;
        let mut list = String::new();
        for row in rows.iter().filter(|row| row.field(0) == group) {
            row.field(2);
            let text = row.fields[2..].join(" ");
            if row.field(1) == "*" {
                other = Some(text);
                continue;
            }
            match constants.iter().find(|c| c.field(0) == group && c.field(1) == row.field(1)) {
                Some(constant) => writeln!(list, "({}, {}),", constant.field(2), texts.at(&text)).unwrap(),
                None => row.fail(&format!("`{group}` has no constant called `{}`", row.field(1))),
            }
        }
        let Some(other) = other else {
            let first = rows.iter().find(|row| row.field(0) == group).expect("a group has a row");
            first.fail(&format!("`{group}` has no text for other values (*)"));
        };
        let name = group.to_uppercase();
        writeln!(out, "/// `pmix_{group}` values.\npub static {name}: Names = Names::new({}, &[", texts.at(&other))
            .unwrap();
        writeln!(out, "{list}]);").unwrap();
    }
    out
}

/// Refuses systems that lack what the crate is built on, in one sentence instead of one error for each call that is not
/// there.
fn refuse_other_systems() {
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if system != "linux" {
        println!(
            "cargo::error=instanton needs Linux: {system} lacks anonymous shared memory that can be sealed (memfd_create, \
             F_ADD_SEALS), futexes on read-only shared words (futex_waitv), process descriptors (pidfd_open) and epoll"
        );
        process::exit(1)
    }
}

fn main() {
    refuse_other_systems();
    println!("cargo::rerun-if-changed={TABLES}/build.rs");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let rows = rows("constants.txt");
    let mut texts = Texts { all: String::new(), places: HashMap::new() };
    // The first text is what a status without a name has.
    texts.at("ERROR STRING NOT FOUND");
    let tables = [
        ("status.rs", status(&mut texts)),
        ("types.rs", types(&mut texts)),
        ("attributes.rs", attributes(&mut texts)),
        ("constants.rs", constants(&rows)),
        ("names.rs", names(&rows, &mut texts)),
    ];
    for (name, text) in tables.into_iter().chain([("texts.rs", texts.written())]) {
        fs::write(Path::new(&out).join(name), text).expect("OUT_DIR is writable");
    }
}
