//! Screens as they are drawn, letter by letter.
use std::time::{Duration, Instant};

use instanton::data::{Activity, Load, Nspace, SharedLoad, WaitReport, Waiting};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::sample::{Sample, ServerSample};
use super::super::state::Action;
use super::*;
use crate::see::jobs::{Job, Process};
use crate::see::patience::Whose;
use crate::see::places::Server;

/// The lines of a screen of that size, without what is blank at their ends.
fn screen(state: &State, (width, height): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, Look { has_colours: true })).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

fn server(pid: i32, library: Library) -> Server {
    let name = Some(format!("s{pid}:0"));
    Server { name, pid: Some(pid), uid: Some(0), up: None, library, way: Vec::new(), whose: Whose::Own }
}

fn told(library: Library, requests: u64) -> ServerSample {
    let nspace = Nspace::new("run@1").unwrap();
    let row = |ranks: &str, activity, call: &str| Waiting {
        nspace: nspace.clone(),
        ranks: ranks.parse().unwrap(),
        activity,
        call: call.into(),
        subject: String::new(),
        since: Duration::from_millis(75_000),
        awaited: if call.is_empty() { Vec::new() } else { vec![(nspace.clone(), "3".parse().unwrap())] },
        participants: Vec::new(),
        is_elsewhere: false,
    };
    let shared =
        SharedLoad { bytes: 80_000, limit: 1 << 30, live: 1500, segments: 1, generation: 1, ..SharedLoad::default() };
    let load = JobLoad {
        nspace: nspace.clone(),
        size: Some(4),
        local: 4,
        attached: 4,
        requests,
        held: 65_536,
        held_limit: 1 << 30,
        kinds: vec![("a connection".into(), 65_536)],
        shared: Some(shared),
    };
    let is_ours = library == Library::Instanton;
    let job = Job {
        namespace: "run@1".into(),
        number: is_ours.then_some(1),
        ranks: Some(4),
        state: Some("running".into()),
        since: None,
        command: Some("./hang fence".into()),
        procs: Some(vec![Process {
            rank: 0,
            node: Some("n0".into()),
            pid: Some(99),
            state: "attached",
            exit_code: None,
            program: None,
        }]),
    };
    let waiting =
        WaitReport { rows: vec![row("0-2", Activity::Waits, "fence"), row("3", Activity::Runs, "")], is_cut: false };
    ServerSample {
        server: server(4711, library),
        error: None,
        jobs: vec![job],
        load: is_ours.then(|| Load { peers: 5, requests: vec![("a fence".into(), requests)], jobs: vec![load] }),
        waiting: is_ours.then_some(waiting),
    }
}

/// A state with two samples that lie two seconds apart.
fn state(samples: [Vec<ServerSample>; 2]) -> State {
    let mut state = State::default();
    let begin = Instant::now();
    for (servers, after) in samples.into_iter().zip([0, 2]) {
        state.take(Sample { at: begin + Duration::from_secs(after), servers });
    }
    state
}

#[test]
fn a_job_that_hangs_fits_on_a_small_screen() {
    let state = state([vec![told(Library::Instanton, 3)], vec![told(Library::Instanton, 8)]]);
    let lines = screen(&state, (80, 24));
    let expected = [
        "instanton top   1 server   1 job   4 ranks   3 waiting   2.5 requests/s",
        "IN       JOB RANKS  HERE      WAIT  STATE    REQ/S   HELD  SHARED COMMAND",
        "4711     1   4      4/4       3     running  2.5     64K   78K    ./hang fence",
        "",
        "RANKS  WAIT IN    FOR     SINCE",
        "0-2    fence      rank 3  1 min 15 s",
        "3      - running  -       -",
    ];
    assert_eq!(lines[..7], expected, "{lines:#?}");
    let expected = [
        "REQUESTS A SECOND                MEMORY OF JOB 1",
        "fence                        2.5 held 64K of 1.0G",
        "                                 shared 78K of 1.0G: live 1.5K, retired 0B",
        "                                 segments 1, waiting 0, set aside 0B",
        "                                 generation 1",
        "                                 a connection                               64K",
        "",
        "up/down: job   r: its ranks   space: stop   ?: keys   q: end",
    ];
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let found: Vec<String> = lines[16..].iter().map(|line| squeezed(line)).collect();
    assert_eq!(found, expected.map(squeezed), "{lines:#?}");
}

#[test]
fn a_wide_screen_has_the_details_beside_and_limits() {
    let state = state([vec![told(Library::Instanton, 3)], vec![told(Library::Instanton, 8)]]);
    let lines = screen(&state, (160, 30));
    assert!(lines[1].contains(" NAMESPACE ") && lines[2].contains(" 64K/1.0G "), "{lines:#?}");
    assert!(lines[4].starts_with("RANKS ") && lines[4].ends_with("REQUESTS A SECOND"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.trim_start() == "MEMORY OF JOB 1"), "{lines:#?}");
    assert!(lines.iter().all(|line| line.chars().count() <= 160));
}

#[test]
fn ranks_take_the_place_of_who_waits() {
    let mut state = state([vec![told(Library::Instanton, 3)], vec![told(Library::Instanton, 3)]]);
    assert!(state.act(Action::Switch));
    let lines = screen(&state, (80, 24));
    assert_eq!(
        lines[4].split_whitespace().collect::<Vec<_>>(),
        ["RANK", "NODE", "PID", "STATE", "PROGRAM"],
        "{lines:#?}"
    );
    assert_eq!(lines[5].split_whitespace().collect::<Vec<_>>(), ["0", "n0", "99", "attached", "-"], "{lines:#?}");
}

#[test]
fn a_stock_server_says_little_and_that_is_said() {
    let state = state([vec![told(Library::Stock, 0)], vec![told(Library::Stock, 0)]]);
    let lines = screen(&state, (80, 24));
    assert_eq!(
        lines[2].split_whitespace().collect::<Vec<_>>()[..6],
        ["4711", "-", "4", "-", "-", "running"],
        "{lines:#?}"
    );
    let said = "who waits for whom: not told by the server of process 4711, which is on a stock";
    assert!(lines[4].starts_with(said), "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.contains("not told")).count(), 2, "{lines:#?}");
}

#[test]
fn nothing_a_dead_server_and_the_keys_are_said_in_words() {
    let lines = screen(&State::default(), (80, 24));
    assert_eq!(lines[2], "asking ...");
    let empty = state([Vec::new(), Vec::new()]);
    assert!(screen(&empty, (80, 24))[2].starts_with("no server lets tools in"));
    let dead = ServerSample {
        error: Some("no answer within 5 s".into()),
        jobs: Vec::new(),
        load: None,
        waiting: None,
        ..told(Library::Stock, 0)
    };
    let mut dead = state([Vec::new(), vec![dead]]);
    assert_eq!(screen(&dead, (80, 24))[1], "the server of process 4711: no answer within 5 s");
    assert!(dead.act(Action::Help));
    let help = screen(&dead, (80, 24));
    assert!(help.iter().any(|line| line.contains("ranks of the chosen job")), "{help:#?}");
    assert!(!dead.act(Action::Quit));
}

#[test]
fn no_screen_is_too_small_and_a_long_list_keeps_the_chosen_job_in_sight() {
    let mut many = told(Library::Instanton, 3);
    many.jobs = (0..50).map(|number| Job { number: Some(number), ..many.jobs[0].clone() }).collect();
    let mut state = state([Vec::new(), vec![many]]);
    for _ in 0..30 {
        state.act(Action::Next);
    }
    let lines = screen(&state, (80, 24));
    assert!(lines[..9].iter().any(|line| line.starts_with("4711     30 ")), "{lines:#?}");
    for size in [(1, 1), (20, 3), (80, 5), (300, 100)] {
        screen(&state, size);
    }
    // A job that is gone is chosen no more.
    state.take(Sample { at: Instant::now(), servers: vec![told(Library::Instanton, 3)] });
    assert_eq!(state.chosen, 0);
    state.act(Action::Pause);
    state.take(Sample { at: Instant::now(), servers: Vec::new() });
    assert_eq!(state.rows().len(), 1, "it stays as it was");
}

#[test]
fn bytes_are_few_letters() {
    let shown = [0, 999, 1000, 1536, 65_536, 10 << 20, 1 << 30, u64::MAX].map(bytes);
    assert_eq!(shown, ["0B", "999B", "1.0K", "1.5K", "64K", "10M", "1.0G", "16777216T"]);
}
