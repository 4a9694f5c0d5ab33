//! How the library is linked, and the exported functions that it does not serve yet, made from the table `unsupported.txt`.
use std::fmt::Write as _;
use std::{env, fs, path::Path};

fn main() {
    for arg in ["-Wl,-soname,libpmix.so.2", "-Wl,-z,nodelete"] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=unsupported.txt");
    let table = fs::read_to_string("unsupported.txt").expect("the table of functions");
    let mut code = String::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, gives) = line.split_once(char::is_whitespace).expect("a name and what it gives");
        let (returns, answer) = match gives.trim() {
            "not-supported" => (" -> libc::c_int", "instanton::data::Status::ERR_NOT_SUPPORTED.0"),
            "nothing" => ("", ""),
            "null" => (" -> *const libc::c_void", "std::ptr::null()"),
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
