//! The library as a C program sees it: its dynamic symbols, and programs compiled against it.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

mod programs;
mod real;

use programs::{alone, checked};

/// The directory with the library under the names that programs look for.
fn library() -> PathBuf {
    let exe = env::current_exe().expect("the test's own path");
    let built = exe.parent().expect("a directory").join("libpmix.so");
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("lib");
    fs::create_dir_all(&dir).expect("a directory for links");
    for name in ["libpmix.so", "libpmix.so.2"] {
        // Tests run side by side: each puts its link in place with one rename.
        let fresh = dir.join(format!("{name}.{:?}", std::thread::current().id()));
        let _ = fs::remove_file(&fresh);
        std::os::unix::fs::symlink(&built, &fresh).expect("a link");
        fs::rename(&fresh, dir.join(name)).expect("a link in place");
    }
    dir
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Compiles a test program.
fn compile(name: &str, flags: &[&str]) -> PathBuf {
    let out = format!("{name}{}", flags.concat().replace('=', "-"));
    compile_with(&Path::new(env!("CARGO_MANIFEST_DIR")).join("include"), name, &out, flags)
}

/// Compiles a test program against some headers.
fn compile_with(headers: &Path, name: &str, out: &str, flags: &[&str]) -> PathBuf {
    let dir = library();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(out);
    run(Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g"])
        .args(flags)
        .arg("-I")
        .arg(headers)
        .arg(sources.join(format!("{name}.c")))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&dir)
        .arg("-lpmix")
        .arg(format!("-Wl,-rpath,{}", dir.display())));
    program
}

const SANITIZERS: &str = "-fsanitize=address,undefined";

/// Runs a program that checks itself as it is, under valgrind, and with sanitizers.
fn holds(name: &str, flags: &[&str]) {
    let program = compile(name, flags);
    run(&mut alone(&program));
    if let Some(mut command) = checked(&program) {
        run(&mut command);
    }
    run(&mut alone(&compile(name, &[flags, &[SANITIZERS]].concat())));
}

fn symbols(args: &[&str]) -> Vec<String> {
    let output = run(Command::new("nm").args(args).arg(library().join("libpmix.so")));
    let text = String::from_utf8(output.stdout).expect("names of symbols");
    text.lines().filter_map(|line| line.split_whitespace().last()).map(String::from).collect()
}

#[test]
fn exactly_the_listed_symbols_are_exported() {
    let table = include_str!("../exports.txt");
    let mut listed: Vec<_> = table.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(listed.len(), 341);
    listed.sort_unstable();
    let mut exported = symbols(&["-D", "--defined-only"]);
    exported.sort_unstable();
    assert_eq!(exported, listed);
}

#[test]
fn it_is_linked_as_programs_expect() {
    let output = run(Command::new("readelf").arg("-dV").arg(library().join("libpmix.so")));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("Library soname: [libpmix.so.2]"), "{text}");
    assert!(text.contains("NODELETE"), "{text}");
    assert!(!text.contains("Version definition section"), "{text}");
    for line in text.lines().filter(|line| line.contains("(NEEDED)")) {
        let allowed = ["[libc.so.", "[libm.so.", "[libgcc_s.so.", "[ld-linux-"];
        assert!(allowed.iter().any(|name| line.contains(name)), "{line}");
    }
}

#[test]
fn helpers_work_and_own_their_memory() {
    holds("helpers", &[]);
}

#[test]
fn programs_of_older_headers_find_their_helpers() {
    holds("older", &[]);
}

#[test]
fn few_packed_bytes_make_no_more_of_themselves() {
    run(&mut alone(&compile("claims", &[])));
}

#[test]
fn a_program_that_nobody_launched_is_alone() {
    holds("before_init", &[]);
}

#[test]
fn events_reach_their_handlers_in_order() {
    holds("events", &["-pthread"]);
}

#[test]
fn a_host_in_c_runs_a_job() {
    holds("job", &["-pthread"]);
    let program = compile("job", &["-pthread"]);
    run(alone(&program).arg("dies"));
    run(alone(&program).arg("refused"));
    run(alone(&program).env("INSTANTON_SHM", "off"));
}

#[test]
fn a_process_that_shows_no_sign_of_life_is_told_of() {
    let program = compile("monitors", &["-pthread"]);
    run(alone(&program).arg("more"));
    if let Some(mut command) = checked(&program) {
        run(command.arg("more"));
    }
}

#[test]
fn a_server_that_cannot_start_leaves_nothing() {
    run(&mut alone(&compile("scarce", &["-pthread"])));
}

#[test]
fn a_host_calls_its_server_from_within_what_it_is_asked() {
    holds("upcalls", &["-pthread"]);
}

#[test]
fn what_hosts_register_is_found_as_they_say_it() {
    holds("registrations", &[]);
}

#[test]
fn a_host_makes_the_calls_of_a_client() {
    let program = compile("host_calls", &["-pthread"]);
    run(&mut alone(&program));
    if let Some(mut command) = checked(&program) {
        run(&mut command);
    }
}

#[test]
fn a_host_may_hold_a_lock_while_it_answers() {
    holds("release", &["-pthread"]);
}

#[test]
fn a_host_answers_when_where_and_if_it_likes() {
    holds("answers", &["-pthread"]);
}

/// `INSTANTON_TEST_ROUNDS` multiplies how often.
#[test]
fn what_comes_and_goes_leaves_nothing() {
    let rounds = env::var("INSTANTON_TEST_ROUNDS").map_or(1, |text| text.parse::<u32>().expect("a number"));
    let program = compile("churn", &["-pthread"]);
    for (what, few) in [("namespaces", 2500), ("servers", 1000), ("fences", 5000)] {
        let mut command = alone(&program);
        command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0").args([what, &(few * rounds).to_string()]);
        let output = run(&mut command);
        println!("{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn values_come_back_as_they_were_asked_for() {
    run(&mut alone(&compile("reads", &["-pthread", "-DCOUNT"])));
    run(&mut alone(&compile("reads", &["-pthread", SANITIZERS])));
    let program = compile("reads", &["-pthread"]);
    if let Some(mut command) = checked(&program) {
        run(command.env("VALGRIND_OPTS", "--trace-children=yes"));
    }
}

#[test]
fn a_host_of_any_release_is_asked_for_everything() {
    for release in ["42", "50", "60"] {
        run(&mut alone(&compile("host", &["-pthread", &format!("-DRELEASE={release}")])));
    }
    holds("host", &["-pthread", "-DRELEASE=61"]);
}

#[test]
fn tools_find_their_servers() {
    let program = compile("tool", &["-pthread"]);
    run(&mut alone(&program));
    if let Some(mut command) = checked(&program) {
        run(command.env("VALGRIND_OPTS", "--trace-children=yes"));
    }
}

#[test]
fn a_launcher_has_a_server_of_its_own() {
    let program = compile("launcher", &["-pthread"]);
    run(&mut alone(&program));
    if let Some(mut command) = checked(&program) {
        run(&mut command);
    }
}

#[test]
fn a_launcher_without_a_server_starts_processes_itself() {
    let program = compile("starter", &["-pthread"]);
    run(&mut alone(&program));
    if let Some(mut command) = checked(&program) {
        run(command.arg("watched"));
    }
}

#[test]
fn a_debugger_steers_the_launcher_that_it_starts() {
    let program = compile("steers", &["-pthread"]);
    let output = run(alone(&program).arg(instanton()));
    // Once each, of the job that was let go to its end and of the one that was killed.
    let text = String::from_utf8(output.stdout).expect("text");
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert!(lines.len() <= 4 && lines.contains(&"rank 0") && lines.contains(&"rank 1"), "{text}");
}

#[test]
fn streams_of_processes_reach_tools_and_come_from_them() {
    let program = compile("streams", &["-pthread"]);
    run(&mut alone(&program));
    // The tools as well; one that is killed is not looked at.
    if let Some(mut command) = checked(&program) {
        run(command.env("VALGRIND_OPTS", "--trace-children=yes"));
    }
}

#[test]
fn a_host_has_clients_of_other_users() {
    let program = compile("users", &["-pthread"]);
    run(&mut alone(&program));
    if let Some(mut command) = checked(&program) {
        run(&mut command);
    }
}

#[test]
fn a_host_may_say_which_release_it_is_of() {
    let program = compile("host", &["-pthread", "-DRELEASE=61", "-DUNPROVED"]);
    run(alone(&program).env("INSTANTON_SERVER_MODULE", "6.1"));
}

/// `instanton run` of this very build, with so many ranks.
fn launched(ranks: u32) -> Command {
    let mut command = alone(&instanton());
    command.args(["run", "-n", &ranks.to_string()]);
    command
}

/// The command of this very build.
fn instanton() -> PathBuf {
    let exe = env::current_exe().expect("the test's own path");
    let instanton = exe.ancestors().nth(2).expect("cargo's folder").join("instanton");
    assert!(instanton.exists(), "{} is missing: cargo builds it with the workspace", instanton.display());
    instanton
}

/// Clients, tools and hosts; what is in each comes from the headers' macros, and lies where the headers say.
#[test]
fn programs_built_against_newer_real_headers_run() {
    let fetched = match real::fetched() {
        Ok(fetched) => fetched,
        Err(reason) => return println!("SKIPPED programs_built_against_newer_real_headers_run: {reason}"),
    };
    for there in fetched {
        let [major, minor, _] = there.version;
        let flags = ["-pthread", &format!("-DRELEASE={major}{minor}")];
        let compiled = |name: &str| compile_with(&there.folder, name, &format!("{name}-{}", there.name()), &flags);
        for name in
            ["before_init", "events", "hardware", "job", "host_calls", "release", "reads", "streams", "tool", "users"]
        {
            run(&mut alone(&compiled(name)));
        }
        for name in ["macros", "helpers", "host"] {
            let program = compiled(name);
            run(&mut alone(&program));
            if let Some(mut command) = checked(&program) {
                run(&mut command);
            }
        }
        run(launched(1).arg(compiled("copy")));
        run(launched(4).arg(compiled("groups")));
    }
}

#[test]
fn a_rank_talks_with_a_program_that_it_has_started() {
    let program = compile("copy", &["-pthread"]);
    // Output of that program is the user's as well.
    run(launched(1).arg(&program));
    if let Some(checked) = checked(&program) {
        run(launched(1).arg(checked.get_program()).args(checked.get_args()));
    }
}

#[test]
fn ranks_make_groups() {
    let program = compile("groups", &["-pthread"]);
    run(launched(4).arg(&program));
    run(launched(4).env("INSTANTON_SHM", "off").arg(&program));
    if let Some(checked) = checked(&program) {
        run(launched(4).arg(checked.get_program()).args(checked.get_args()));
    }
}
