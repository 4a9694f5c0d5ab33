//! Options for linking the plug-in.

fn main() {
    // A host closes plug-ins, and may do so while a call of it is still under way.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
