//! Options for linking the library.

fn main() {
    for arg in ["-Wl,-soname,libinstanton_store.so.0", "-Wl,-z,nodelete"] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
