//! The examples, run as a newcomer would run them.
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// An example that cargo has built beside this test.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo build --examples makes it", path.display());
    path
}

/// The lines that a program prints until it ends, which must be well.
fn lines_of(program: &mut Child, stdout: impl Read) -> Vec<String> {
    let lines = BufReader::new(stdout).lines().collect::<Result<Vec<_>, _>>().unwrap();
    assert!(program.wait().unwrap().success(), "{lines:#?}");
    lines
}

fn run(command: &mut Command) -> Vec<String> {
    let mut program = command.stdout(Stdio::piped()).spawn().unwrap();
    let stdout = program.stdout.take().unwrap();
    lines_of(&mut program, stdout)
}

/// A server that has printed its address, the address, and the rest of what it will print.
fn server(arguments: &[&str], stdin: Stdio) -> (Child, String, BufReader<ChildStdout>) {
    let mut server =
        Command::new(example("server")).args(arguments).stdin(stdin).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("server at ").expect("the server prints its address first").to_owned();
    (server, address, output)
}

#[test]
fn a_server_runs_clients_that_read_each_others_values() {
    let client = example("client");
    let (mut server, _, output) = server(&["3", client.to_str().unwrap()], Stdio::null());
    let mut lines = lines_of(&mut server, output);
    lines.sort();
    let mut expected: Vec<String> = (0..3)
        .flat_map(|rank| {
            [
                format!("example@1:{rank} has called Init"),
                format!("example@1:{rank} has called Finalize"),
                format!("rank {rank} of 3 has read \"the card of rank {}\"", (rank + 1) % 3),
            ]
        })
        .collect();
    expected.sort();
    assert_eq!(lines, expected);
}

#[test]
fn a_tool_lists_the_jobs_of_a_server() {
    // Its ranks run until their input ends.
    let (mut server, address, output) = server(&["2", "cat"], Stdio::piped());
    let listed = run(Command::new(example("tool")).arg(&address));
    drop(server.stdin.take());
    assert_eq!(listed, ["job example@1 has 2 ranks"]);
    lines_of(&mut server, output);
}

#[test]
fn two_processes_share_a_store() {
    assert_eq!(
        run(&mut Command::new(example("store"))),
        [
            r#"attached: "first" job, card "one""#,
            "grown: a block of 1048576 bytes",
            r#"guarded: "one", posted: "two""#,
            r#"replaced: "first" job, then "second" job"#,
            r#"destroyed: card "two" as long as it is mapped"#,
        ]
    );
}

#[test]
fn a_server_that_is_not_ours_has_the_store_in_it() {
    let mut lines = run(&mut Command::new(example("embedded")));
    lines.sort();
    let of = |node| format!("{node}: 8 ranks have read what 24 of other nodes posted");
    assert_eq!(lines, ["alpha", "beta", "delta", "gamma"].map(of));
}

#[cfg(feature = "named-segments")]
#[test]
fn what_a_killed_writer_has_left_is_read() {
    assert_eq!(
        run(&mut Command::new(example("post_mortem"))),
        [
            r#"beside the writer: card "of rank 0""#,
            "not yet: the writer of it lives",
            "killed",
            "post mortem: example@1 of 2 processes",
            r#"  rank 0: example.card = "of rank 0" (scope 3)"#,
            r#"  rank 1: example.card = "of rank 1" (scope 3)"#,
        ]
    );
}
