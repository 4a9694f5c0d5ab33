//! Hosts that are not what they say, in all the ways that a compiler can be told: none of them is touched where it must
//! not be, and everything is passed on.
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

use instanton::data::{Rank, Value};
use instanton::handover::RemoteReader;
use instanton::store::Question;
use pmix_mca_gds_instanton as _;

unsafe extern "C" {
    static pmix_mca_gds_instanton_component: [usize; 33];
}

type Ask = unsafe extern "C" fn(usize, *mut *mut c_void) -> c_int;
type Gets = unsafe extern "C" fn(*mut c_void, *mut [c_int; 4]) -> c_int;
type Begin = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type Exchange = unsafe extern "C" fn(*mut c_void, *mut u8, usize, c_int) -> c_int;
type End = unsafe extern "C" fn(*mut c_void);
type Run = unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int;

/// Compiles a host and loads it, for the whole life of the process.
fn host(name: &str, macros: &[&str]) -> *mut c_void {
    let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("host_{name}.so"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host.c");
    let mut compiler = Command::new("gcc");
    compiler.args(["-shared", "-fPIC", "-O1", "-w", "-o"]).arg(&library).arg(source);
    assert!(compiler.args(macros).status().expect("run gcc").success());
    let path = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: it has no constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null(), "{}", library.display());
    handle
}

fn function(host: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the library stays open.
    let found = unsafe { libc::dlsym(host, name.as_ptr()) };
    assert!(!found.is_null());
    found
}

/// Has a host ask for the module: none where it is declined.
fn ask(host: *mut c_void) -> Option<*mut c_void> {
    // SAFETY: the types are those of host.c, and the component has its query at byte 176.
    unsafe {
        let ask: Ask = std::mem::transmute(function(host, c"ask"));
        let mut module = std::ptr::null_mut();
        let status = ask(pmix_mca_gds_instanton_component[176 / 8], &raw mut module);
        (status == 0).then_some(module)
    }
}

/// Has a host of a process of its own live with the module. Returns how often it was called, and how many variables
/// its process has.
fn run(host: *mut c_void, module: *mut c_void) -> (c_int, c_int) {
    let mut variables = 0;
    // SAFETY: as above.
    let run: Run = unsafe { std::mem::transmute(function(host, c"run")) };
    // SAFETY: as above.
    let passed_on = unsafe { run(module, &raw mut variables) };
    (passed_on, variables)
}

/// Each host in a process of its own: the first that is served is the only one.
fn in_a_process(test: &str, variables: &[(&str, &str)]) -> bool {
    const INNER: &str = "INSTANTON_TEST_HOST";
    if std::env::var_os(INNER).is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let mut inner = Command::new(own);
    inner.args(["--exact", test, "--nocapture"]).env(INNER, "1").envs(variables.iter().copied());
    let output = inner.output().unwrap();
    assert!(output.status.success(), "{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    false
}

/// Calls that are passed on in `host.c`: four for each odd thing.
const PASSED_ON: c_int = 4 * 9;

#[test]
fn a_library_of_another_release_or_shape_is_declined() {
    let others: [(&str, &[&str]); 17] = [
        ("release", &["-DVERSION=\"OpenPMIx 5.0.7 (PMIx Standard: 5.1)\""]),
        ("later", &["-DVERSION=\"OpenPMIx 4.2.9 (PMIx Standard: 4.2)\""]),
        ("nameless", &["-DVERSION=\"\""]),
        ("objects", &["-DKVAL=160"]),
        ("globals", &["-DGLOBALS=3080"]),
        ("foreign", &["-DFOREIGN"]),
        ("between", &["-DLATER", "-DVERSION=\"OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2)\""]),
        ("later_globals", &["-DLATER", "-DGLOBALS=3080"]),
        ("later_foreign", &["-DLATER", "-DFOREIGN"]),
        ("users_of_the_release_before", &["-DLATER", "-DVERSION=\"OpenPMIx 5.0.9 (PMIx Standard: 5.1)\""]),
        ("fewer_objects", &["-DFEWER", "-DKVAL=152"]),
        ("names_globals", &["-DNAMES", "-DGLOBALS=3080"]),
        ("early_globals", &["-DEARLY", "-DGLOBALS=2584"]),
        ("early_interface", &["-DLATEST", "-DVERSION=\"OpenPMIx 7.0.0a1 (PMIx Standard: 5.1)\""]),
        ("latest_release", &["-DLATEST", "-DVERSION=\"OpenPMIx 7.0.0 (PMIx Standard: 4.1)\""]),
        ("latest_globals", &["-DLATEST", "-DGLOBALS=2560"]),
        ("latest_foreign", &["-DLATEST", "-DFOREIGN"]),
    ];
    for (name, macros) in others {
        assert_eq!(ask(host(name, macros)), None, "{name}");
    }
}

/// Macros that make a host one of each release that is served.
const RELEASES: [(&str, &[&str]); 7] = [
    ("4.2.2", &[]),
    ("5.0.7", &["-DLATER"]),
    ("5.0.9", &["-DUSERS"]),
    ("5.0.11", &["-DFEWER"]),
    ("6.1", &["-DNAMES"]),
    ("7.0.0a1", &["-DEARLY"]),
    ("7.0", &["-DLATEST"]),
];

/// Returns whether a fence of a release names processes.
fn names(release: &str) -> bool {
    release >= "6"
}

/// A host of each release, in a process of its own, with further macros: it must be served, go on as it would alone, and
/// give its process so many variables.
fn expect_of_each_release(test: &str, macros: &[&str], variables: c_int) {
    const RELEASE: &str = "INSTANTON_TEST_RELEASE";
    for (release, own) in RELEASES {
        // Within such a process only its release.
        if std::env::var(RELEASE).is_ok_and(|asked| asked != release) {
            continue;
        }
        if in_a_process(test, &[(RELEASE, release)]) {
            let host = host(&format!("{test}_{release}"), &[own, macros].concat());
            let module = ask(host).expect("it is served");
            // And again: hosts init and finalize as often as they like.
            for times in 1..=3 {
                assert_eq!(run(host, module), (times * PASSED_ON, variables), "{release}");
            }
        }
    }
}

#[test]
fn a_library_that_is_as_it_says_is_served() {
    expect_of_each_release("a_library_that_is_as_it_says_is_served", &[], 2);
}

/// A number that rank 1 has posted, as a release says so to other nodes; where processes are named, the part may be
/// compressed.
fn posted(release: &str, number: u8, compressed: bool) -> Vec<u8> {
    let object = |bytes: Vec<u8>| [vec![2, bytes.len() as u8], bytes].concat();
    let entry = |name: &[u8]| [name, b"\x02\x0cother\0\x0e", &[number]].concat();
    if !names(release) {
        let nobody = object(Vec::new());
        return [nobody, object([vec![2, 1], object(entry(&[2, 1]))].concat())].concat();
    }
    let part = [vec![2, 1], object(entry(b"\x02\x08job\0\x01"))].concat();
    let part = if compressed { [b"mark".to_vec(), part].concat() } else { part };
    object([vec![2, compressed.into()], object(part)].concat())
}

#[test]
fn what_a_fence_brings_is_seen_until_one_cannot_be_read() {
    const TEST: &str = "what_a_fence_brings_is_seen_until_one_cannot_be_read";
    const RELEASE: &str = "INSTANTON_TEST_RELEASE";
    for (release, own) in RELEASES {
        if std::env::var(RELEASE).is_ok_and(|asked| asked != release) || !in_a_process(TEST, &[(RELEASE, release)]) {
            continue;
        }
        let host = host(&format!("exchange_{release}"), own);
        let module = ask(host).expect("it is served");
        // SAFETY: the type is that of host.c.
        let begin: Begin = unsafe { std::mem::transmute(function(host, c"begin")) };
        // SAFETY: as above.
        let exchange: Exchange = unsafe { std::mem::transmute(function(host, c"exchange")) };
        // SAFETY: as above.
        let end: End = unsafe { std::mem::transmute(function(host, c"end")) };
        // SAFETY: as above; the variable ends with a NUL.
        let variable = unsafe { CStr::from_ptr(begin(module)) }.to_str().unwrap();
        let address = variable.strip_prefix("INSTANTON_NODE_STORE=").unwrap().split(';').next().unwrap();
        let reader = RemoteReader::open(address).expect("segments");
        let seen = || reader.get(&Question::new(Rank(1), "other")).ok();
        let exchange = |mut bytes: Vec<u8>, how| {
            // SAFETY: as above; the host copies nothing and keeps nothing.
            assert_eq!(unsafe { exchange(module, bytes.as_mut_ptr(), bytes.len(), how) }, 0);
        };
        let named = names(release);
        assert_eq!(seen(), None);
        for (number, compressed) in [(7, false), (8, false), (9, named)] {
            exchange(posted(release, number, compressed), 0);
            assert_eq!(seen(), Some(Value::from(u32::from(number))), "{release}");
        }
        // A fence of others, or of nobody that can be named, and bytes that are none.
        for how in 1..=6 {
            exchange(posted(release, 10, false), how);
            let is_read = named && how != 6;
            assert_eq!(seen(), is_read.then(|| Value::from(10u32)), "{release}, {how}");
            exchange(posted(release, 11, false), 0);
            assert_eq!(seen(), Some(Value::from(11u32)), "{release}, {how}");
        }
        let whole = posted(release, 12, named);
        for cut in 3..whole.len() {
            exchange(whole[..cut].to_vec(), 0);
            assert_eq!(seen(), None, "{release}, {cut}");
        }
        exchange(whole, 0);
        assert_eq!(seen(), Some(Value::from(12u32)), "{release}");
        // SAFETY: as above.
        unsafe { end(module) };
    }
}

/// Answers to a process for a key that the segments have, twice and on another thread, and there of another key.
fn found(test: &str, macros: &[&str]) -> [c_int; 4] {
    let host = host(test, &[&["-DLATEST"], macros].concat());
    let module = ask(host).expect("it is served");
    let mut found = [0; 4];
    // SAFETY: the type is that of host.c.
    unsafe {
        let gets: Gets = std::mem::transmute(function(host, c"gets"));
        assert_eq!(gets(module, &raw mut found), 0);
    }
    found
}

/// The library's own answer, that of the segments, and none.
const OWN: c_int = 77;
const KEPT: c_int = 5;
const NONE: c_int = -46;

#[test]
fn a_process_of_the_latest_release_is_answered_from_segments() {
    if in_a_process("a_process_of_the_latest_release_is_answered_from_segments", &[]) {
        assert_eq!(found("answers", &[]), [KEPT, KEPT, KEPT, NONE]);
    }
}

#[test]
fn a_library_whose_answers_are_something_else_gives_them_alone() {
    if in_a_process("a_library_whose_answers_are_something_else_gives_them_alone", &[]) {
        assert_eq!(found("other_answers", &["-DOWNERS=2"]), [OWN, OWN, NONE, NONE]);
    }
}

#[test]
fn a_library_whose_lists_are_made_by_others_makes_none() {
    if in_a_process("a_library_whose_lists_are_made_by_others_makes_none", &[]) {
        assert_eq!(found("other_lists", &["-DMAKES=abort"]), [OWN, OWN, NONE, NONE]);
    }
}

#[test]
fn of_two_libraries_in_a_process_the_first_is_served() {
    if in_a_process("of_two_libraries_in_a_process_the_first_is_served", &[]) {
        let module = ask(host("first", &[])).expect("it is served");
        for (name, macros) in [("same", &[][..]), ("later", &["-DLATER"])] {
            assert_eq!(ask(host(&format!("second_{name}"), macros)), None);
        }
        assert_eq!(ask(host("first", &[])), Some(module));
    }
}

#[test]
fn damaged_commits_and_answers_are_passed_on() {
    expect_of_each_release("damaged_commits_and_answers_are_passed_on", &["-DPACKS"], 2);
}

#[test]
fn a_job_of_which_a_process_is_told_an_error_has_no_segments() {
    expect_of_each_release("a_job_of_which_a_process_is_told_an_error_has_no_segments", &["-DSTATUS=-46"], 1);
}

#[test]
fn a_server_whose_name_is_not_where_it_should_be_keeps_nothing() {
    expect_of_each_release("a_server_whose_name_is_not_where_it_should_be_keeps_nothing", &["-DRANK=8"], 1);
}

#[test]
fn a_server_whose_objects_are_none_keeps_nothing() {
    expect_of_each_release("a_server_whose_objects_are_none_keeps_nothing", &["-DNO_CLASS"], 1);
}

#[test]
fn a_server_whose_peer_is_nowhere_keeps_nothing() {
    expect_of_each_release("a_server_whose_peer_is_nowhere_keeps_nothing", &["-DWILD"], 1);
}

#[test]
fn a_server_with_another_module_of_its_own_keeps_nothing() {
    if in_a_process("a_server_with_another_module_of_its_own_keeps_nothing", &[]) {
        let host = host("instead", &["-DLATEST", "-DINSTEAD"]);
        let module = ask(host).expect("it is served");
        assert_eq!(run(host, module), (PASSED_ON, 1));
    }
}

#[test]
fn a_server_whose_peer_is_elsewhere_keeps_nothing() {
    expect_of_each_release("a_server_whose_peer_is_elsewhere_keeps_nothing", &["-DPEER_AT=344"], 1);
}
