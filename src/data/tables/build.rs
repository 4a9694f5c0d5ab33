//! Turns the tables beside this file into Rust constants.
use std::fmt::Write as _;
use std::{env, fs, path::Path};

fn rows(name: &str) -> Vec<Vec<String>> {
    let path = Path::new("src/data/tables").join(name);
    println!("cargo::rerun-if-changed={}", path.display());
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(|l| l.split_whitespace().map(String::from).collect())
        .collect()
}

fn status() -> String {
    let mut out = String::from("impl Status {\n");
    let mut names = String::from("pub(crate) const STATUS_NAMES: &[(i32, &str)] = &[\n");
    for row in rows("status.txt") {
        let (name, value) = (&row[0], &row[1]);
        writeln!(out, "/// `PMIX_{name}` ({value}).\npub const {name}: Status = Status({value});").unwrap();
        if row.len() == 2 {
            writeln!(names, "({value}, \"PMIX_{name}\"),").unwrap();
        }
    }
    out + "}\n" + &names + "];\n"
}

fn types() -> String {
    let mut out = String::from("impl DataType {\n");
    let mut names = String::from("pub(crate) const TYPE_NAMES: &[(u16, &str)] = &[\n");
    for row in rows("types.txt") {
        let (name, value) = (&row[0], &row[1]);
        writeln!(out, "/// `PMIX_{name}` ({value}).\npub const {name}: DataType = DataType({value});").unwrap();
        writeln!(names, "({value}, \"PMIX_{name}\"),").unwrap();
    }
    out + "}\n" + &names + "];\n"
}

fn attributes() -> String {
    let mut out = String::new();
    let mut table = String::from(
        "/// Every attribute: name, key, and the number of the type of its value (0 where it varies).\n\
         pub const ALL: &[(&str, &str, u16)] = &[\n",
    );
    let types = rows("types.txt");
    for row in rows("attributes.txt") {
        let (name, key, ty) = (&row[0], &row[1], &row[2]);
        let number = types.iter().find(|t| &t[0] == ty).map_or("0", |t| &t[1]);
        let shown = if ty == "-" { "varies" } else { ty };
        writeln!(out, "/// `PMIX_{name}`, value: {shown}.\npub const {name}: &str = \"{key}\";").unwrap();
        writeln!(table, "(\"PMIX_{name}\", \"{key}\", {number}),").unwrap();
    }
    out + &table + "];\n"
}

/// One module a group: `scope::LOCAL`, `proc_state::RUNNING`, ...
fn constants() -> String {
    let kind = |group: &str| match group {
        "rank" | "info_directives" | "appnum" => "u32",
        "device_type" | "storage_accessibility" | "storage_medium" | "storage_persistence" => "u64",
        "iof_channel" | "locality" | "storage_access_type" => "u16",
        "boolean" | "fabric_operation" | "group_operation" | "group_opt" | "value_cmp" | "common" | "limit" => "i64",
        _ => "u8",
    };
    let mut groups: Vec<(String, String)> = Vec::new();
    for row in rows("constants.txt") {
        let (group, name, value) = (&row[0], &row[1], &row[2]);
        let line = format!("/// `PMIX_{name}` ({value}).\npub const {name}: {} = {value};\n", kind(group));
        match groups.iter_mut().find(|(g, _)| g == group) {
            Some((_, body)) => body.push_str(&line),
            None => groups.push((group.clone(), line)),
        }
    }
    groups.iter().fold(String::new(), |out, (group, body)| {
        out + &format!("/// `pmix_{group}` values.\npub mod {group} {{\n{body}}}\n")
    })
}

fn main() {
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    for (name, text) in
        [("status.rs", status()), ("types.rs", types()), ("attributes.rs", attributes()), ("constants.rs", constants())]
    {
        fs::write(Path::new(&out).join(name), text).expect("OUT_DIR is writable");
    }
}
