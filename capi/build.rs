//! How the library is linked, and the exported functions that it does not serve yet, made from the table in the documentation.
use std::fmt::Write as _;
use std::{env, fs, path::Path};

/// The table that says so to people, too.
const TABLE: &str = "../docs/NOT_SUPPORTED.md";

fn main() {
    for arg in ["-Wl,-soname,libpmix.so.2", "-Wl,-z,nodelete"] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={TABLE}");
    let table = fs::read_to_string(TABLE).expect("the table of functions");
    let mut code = String::new();
    for line in table.lines().filter(|line| line.starts_with("| `PMIx_")) {
        let mut cells = line.split('|').map(|cell| cell.trim().trim_matches('`'));
        let (name, gives) = (cells.nth(1).expect("a name"), cells.next().expect("what it answers"));
        let (returns, answer) = match gives {
            "PMIX_ERR_NOT_SUPPORTED" => (" -> libc::c_int", "instanton::data::Status::ERR_NOT_SUPPORTED.0"),
            "nothing" => ("", ""),
            "NULL" => (" -> *const libc::c_void", "std::ptr::null()"),
            "false" => (" -> bool", "false"),
            other => panic!("{name}: what is {other:?}?"),
        };
        // Arguments are left where the caller put them: nothing looks at them.
        writeln!(code, "#[unsafe(no_mangle)]\npub extern \"C\" fn {name}(){returns} {{{answer}}}")
            .expect("writing to a string");
    }
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("unsupported.rs"), code).expect("OUT_DIR is writable");
}
