//! The library as C programs see it: compiled, linked, and run; under valgrind where it is installed, and with
//! sanitizers.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

const SANITIZERS: &str = "-fsanitize=address,undefined";

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// The directory with the library under the name that programs are linked with and the one that they look for.
fn library() -> PathBuf {
    let built = env::current_exe().unwrap().parent().unwrap().join("libinstanton_store.so");
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("store-lib");
    fs::create_dir_all(&dir).unwrap();
    for name in ["libinstanton_store.so", "libinstanton_store.so.0"] {
        // Tests run side by side: each puts its link in place with one rename.
        let fresh = dir.join(format!("{name}.{:?}", std::thread::current().id()));
        let _ = fs::remove_file(&fresh);
        std::os::unix::fs::symlink(&built, &fresh).unwrap();
        fs::rename(&fresh, dir.join(name)).unwrap();
    }
    dir
}

fn compile(name: &str, flags: &[&str]) -> PathBuf {
    compile_of("tests/c", name, flags)
}

/// Compiles a program of a folder.
fn compile_of(folder: &str, name: &str, flags: &[&str]) -> PathBuf {
    let (here, lib) = (Path::new(env!("CARGO_MANIFEST_DIR")), library());
    let place = folder.replace('/', "-");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{place}-{name}{}", flags.len()));
    run(Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-pthread"])
        .args(flags)
        .arg("-I")
        .arg(here.join("include"))
        .arg("-I")
        .arg(here.join("../capi/include"))
        .arg(here.join(format!("{folder}/{name}.c")))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&lib)
        .arg("-linstanton_store")
        .arg(format!("-Wl,-rpath,{}", lib.display())));
    program
}

fn holds(name: &str) {
    let program = compile(name, &[]);
    let output = run(&mut Command::new(&program));
    assert_eq!(output.stdout, b"ok\n");
    if Command::new("valgrind").arg("--version").output().is_ok() {
        let options = ["-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"];
        run(Command::new("valgrind").args(options).arg(&program));
    }
    run(&mut Command::new(compile(name, &[SANITIZERS])));
}

#[test]
fn a_server_has_forked_readers() {
    holds("server");
}

#[test]
fn descriptors_are_handed_over_and_nonsense_is_refused() {
    holds("handed");
}

#[test]
fn what_a_killed_writer_has_left_is_read() {
    holds("post_mortem");
}

#[test]
fn nobody_loses_anything_for_want_of_descriptors() {
    // Not under valgrind, which has descriptors of its own.
    for flags in [&[][..], &[SANITIZERS]] {
        assert_eq!(run(&mut Command::new(compile("scarce", flags))).stdout, b"ok\n");
    }
}

#[test]
fn a_server_without_memory_of_its_own_goes_on() {
    // Neither under valgrind nor with sanitizers, which take memory themselves.
    assert_eq!(run(&mut Command::new(compile("memory", &[]))).stdout, b"ok\n");
}

#[test]
fn readers_of_another_user_are_let_in_when_the_writer_says_so() {
    holds("users");
}

#[test]
fn values_of_every_kind_are_put_as_c_has_them() {
    holds("types");
}

#[test]
fn the_examples_of_the_manual_do_what_they_say() {
    let said = run(&mut Command::new(compile_of("examples", "embed", &[]))).stdout;
    let mut lines: Vec<_> = str::from_utf8(&said).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["rank 0 of 2 sees \"card of rank 1\"", "rank 1 of 2 sees \"card of rank 0\""]);
    let reader = Command::new(compile_of("examples", "post_mortem", &[])).arg("/nowhere").output().unwrap();
    assert_eq!(reader.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&reader.stderr), "/nowhere: there is no job at /nowhere\n");
}
