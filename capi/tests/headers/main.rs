//! The public headers: made of the tables, in step with the library, and accepted by compilers without a word.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

#[path = "../../headers/generate.rs"]
mod generate;
#[path = "../../headers/man.rs"]
mod man;

mod agreement;
#[path = "../programs/mod.rs"]
mod programs;
#[path = "../real/mod.rs"]
mod real;

use programs::{alone, checked};

const C: [&str; 3] = ["-xc", "-std=c99", "-std=c11"];
const CXX: [&str; 3] = ["-xc++", "-std=c++11", "-std=c++17"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// A compiler that looks for our headers first and tolerates nothing.
fn compiler(language: &str, standard: &str) -> Command {
    let mut command = Command::new(if language == "-xc" { "cc" } else { "c++" });
    command.args([language, standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-I"]);
    command.arg(folder("include"));
    command
}

/// Has every standard of C and C++ look at a source, of whose folder its own headers do not count.
fn accepted(source: &Path) {
    for [language, standards @ ..] in [C, CXX] {
        for standard in standards {
            run(compiler(language, standard).args(["-fsyntax-only"]).arg(source));
        }
    }
}

/// A source that a test makes up.
fn source(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("a file");
    path
}

/// A program linked with the library, and the folder to find that in.
fn program(name: &str, language: &str, standard: &str) -> (PathBuf, PathBuf) {
    let built = env::current_exe().expect("the test's own path").parent().expect("a folder").join("libpmix.so");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}{standard}"));
    let libraries = out.with_extension("libraries");
    fs::create_dir_all(&libraries).expect("a folder");
    for name in ["libpmix.so", "libpmix.so.2"] {
        let _ = fs::remove_file(libraries.join(name));
        std::os::unix::fs::symlink(&built, libraries.join(name)).expect("a link");
    }
    let source = folder("tests/c").join(format!("{name}.c"));
    run(compiler(language, standard).arg(source).arg("-o").arg(&out).arg("-L").arg(&libraries).arg("-lpmix"));
    (out, libraries)
}

/// A command with a library.
fn on(library: &Path, mut command: Command) -> Command {
    command.env("LD_LIBRARY_PATH", library);
    command
}

#[test]
fn they_are_what_the_tables_give() {
    for (name, text) in generate::headers() {
        let kept = fs::read_to_string(folder("include").join(&name)).unwrap_or_default();
        assert!(kept == text, "{name} differs: run `cargo run -p instanton-capi --example headers`");
    }
}

#[test]
fn they_declare_what_the_library_exports() {
    let functions = generate::functions();
    let declared: BTreeSet<_> = functions.iter().map(|function| generate::name_of(function.head)).collect();
    assert_eq!(declared.len(), functions.len(), "a function is declared twice");
    let exported: BTreeSet<_> =
        include_str!("../../exports.txt").lines().filter(|line| line.starts_with("PMIx_")).collect();
    assert_eq!(declared, exported);
    for function in functions {
        assert!(!function.lines.is_empty(), "{}: nobody says what it does", function.head);
    }
}

#[test]
fn each_stands_alone() {
    for (name, _) in generate::headers() {
        accepted(&source(&format!("alone_{name}.c"), &format!("#include <{name}>\nint nothing;\n")));
    }
}

#[test]
fn structures_lie_where_programs_expect_them() {
    let mut text =
        String::from("#include <pmix_tool.h>\n#ifndef __cplusplus\n#define static_assert _Static_assert\n#endif\n");
    let structs = generate::structs();
    for s in &structs {
        writeln!(text, "static_assert(sizeof({0}) == {1}, \"{0}\");", s.name, s.size).unwrap();
        for (at, member, _) in &s.members {
            writeln!(text, "static_assert(offsetof({0}, {member}) == {at}, \"{0}.{member}\");", s.name).unwrap();
        }
    }
    let path = source("layout.c", &text);
    run(compiler("-xc", "-std=c11").arg("-fsyntax-only").arg(&path));
    run(compiler("-xc++", "-std=c++17").arg("-fsyntax-only").arg(&path));

    // The library's own structures, which its compiler holds to these numbers.
    let squeezed: String = include_str!("../../src/types.rs").split_whitespace().collect::<Vec<_>>().join(" ");
    for s in structs.iter().filter(|s| s.name != "pmix_server_module_t") {
        let head = format!(" {}, {} {{ ", s.name, s.size);
        let at = squeezed.find(&head).unwrap_or_else(|| panic!("{head}is not in the library")) + head.len();
        let members = &squeezed[at..at + squeezed[at..].find('}').expect("an end")];
        let offsets: Vec<_> = members
            .split([',', ' '])
            .zip(members.split([',', ' ']).skip(1))
            .filter(|(before, _)| *before == "=")
            .map(|(_, offset)| offset.parse::<usize>().expect("an offset"))
            .collect();
        assert_eq!(offsets, s.members.iter().map(|member| member.0).collect::<Vec<_>>(), "{}", s.name);
    }
}

#[test]
fn macros_do_what_they_say() {
    let used = include_str!("../c/macros.c");
    let family = ["CONSTRUCT", "DESTRUCT", "CREATE", "FREE", "RELEASE"];
    for entry in generate::macros() {
        let name = generate::name_of(entry.head);
        let (base, last) = name.rsplit_once('_').expect("names have two parts");
        let in_a_family = family.contains(&last) && {
            let base = base.trim_start_matches("PMIX_");
            used.contains(&format!("RELEASED({base}, "))
                || last != "RELEASE" && used.contains(&format!("FAMILY({base}, "))
        };
        assert!(in_a_family || used.contains(&format!("{name}(")), "no test uses {name}");
    }
    for (language, standard) in [("-xc", "-std=c11"), ("-xc++", "-std=c++17")] {
        let (program, library) = program("macros", language, standard);
        run(&mut on(&library, alone(&program)));
        if let Some(command) = checked(&program) {
            run(&mut on(&library, command));
        }
    }
}

#[test]
fn every_function_has_a_page_in_the_manual() {
    let sources: Vec<String> = fs::read_dir(folder("src/api"))
        .expect("sources")
        .map(|entry| fs::read_to_string(entry.expect("a source").path()).expect("a text"))
        .collect();
    let pages: BTreeMap<String, String> = man::pages(&sources).into_iter().collect();
    let exported = include_str!("../../exports.txt").lines().filter(|line| line.starts_with("PMIx_"));
    let missing: Vec<_> = exported.filter(|name| !pages.contains_key(&format!("{name}.3"))).collect();
    assert_eq!(missing, [""; 0]);
    assert!(pages["PMIx_Data_pack.3"].contains("every release from 4.2"), "the words of the Rust function");
    if Command::new("groff").arg("--version").output().is_err() {
        println!("SKIPPED groff is not installed: nobody looks at the pages' form");
        return;
    }
    let all: String = pages.values().map(String::as_str).collect();
    let output = run(Command::new("groff").args(["-man", "-ww", "-z"]).arg(source("pages.3", &all)));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn programs_written_for_others_compile() {
    for name in ["get_bench", "dmodex", "quiet_gets"] {
        let source = folder("../tests/peers").join(format!("{name}.c"));
        run(compiler("-xc", "-std=gnu11").arg("-fsyntax-only").arg(source));
    }
}

/// Runs a program on our library, and where there is a stock one, on that, too: it says the same.
fn says_the_same(name: &str) {
    let (program, ours) = program(name, "-xc", "-std=c11");
    let here = run(&mut on(&ours, alone(&program)));
    let Some(stock) = real::asked("--variable=libdir").filter(|folder| folder.join("libpmix.so.2").exists()) else {
        println!("SKIPPED {name} on the stock library: there is none");
        return;
    };
    let there = run(&mut on(&stock, alone(&program)));
    assert_eq!(String::from_utf8_lossy(&here.stdout), String::from_utf8_lossy(&there.stdout));
}

#[test]
fn a_program_runs_on_the_stock_library_as_well() {
    says_the_same("portable");
}

#[test]
fn odd_calls_are_answered_as_the_stock_library_answers_them() {
    says_the_same("odd_calls");
}

#[test]
fn hosts_are_asked_and_clients_answered_as_by_the_stock_library() {
    says_the_same("requests");
}

/// A program with all of one release's headers sees nothing of another's: each name in them stands for one header.
#[test]
fn they_stand_beside_real_ones() {
    let Some(real) = real::installed() else {
        println!("SKIPPED they_stand_beside_real_ones: no stock headers are installed");
        return;
    };
    let ours = folder("include");
    let all = |folder: &Path| -> String {
        let names = generate::headers().into_iter().map(|(name, _)| folder.join(name));
        names.map(|path| format!("#include \"{}\"\n", path.display())).collect()
    };
    let (ours, theirs) = (all(&ours), all(&real.folder));
    accepted(&source("ours_first.c", &format!("{ours}{theirs}pmix_status_t nothing;\n")));
    // Theirs need more of the system than the standards promise, and are not without warnings.
    let path = source("ours_last.c", &format!("{theirs}{ours}pmix_status_t nothing;\n"));
    for [compiler, language, standard] in [["cc", "-xc", "-std=gnu11"], ["c++", "-xc++", "-std=gnu++17"]] {
        let mut command = Command::new(compiler);
        run(command.args([language, standard, "-w", "-fsyntax-only", "-I"]).arg(&real.folder).arg(&path));
    }
}
