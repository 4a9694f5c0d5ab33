//! Surroundings of the ranks of a job: their place, their environment, their input.
mod common;

use std::collections::BTreeSet;
use std::process::Stdio;

use common::{Job, run, script};

fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().collect()
}

#[test]
fn each_rank_knows_its_place() {
    let ended = script(
        3,
        "echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK/$OMPI_COMM_WORLD_LOCAL_SIZE \
         $OMPI_COMM_WORLD_NODE_RANK $OMPI_MCA_schizo $PMIX_RANK",
    );
    assert_eq!(lines(&ended.stdout), BTreeSet::from(["0/3 0/3 0 ompi 0", "1/3 1/3 1 ompi 1", "2/3 2/3 2 ompi 2"]));
}

#[test]
fn a_namespace_has_a_number_behind_its_name() {
    let ended = script(2, "echo $PMIX_NAMESPACE");
    let names = lines(&ended.stdout);
    assert_eq!(names.len(), 1, "{names:?}");
    let name = names.first().unwrap();
    assert!(name.starts_with("instanton-") && name.ends_with("@1"), "{name}");
}

#[test]
fn applications_follow_each_other() {
    let ended = run([
        "-n",
        "2",
        "-x",
        "WHO=first",
        "sh",
        "-c",
        "echo $WHO $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE",
        ":",
        "-n",
        "1",
        "--wdir",
        "/",
        "sh",
        "-c",
        "echo $WHO $OMPI_COMM_WORLD_RANK $OMPI_FIRST_RANKS, $OMPI_APP_CTX_NUM_PROCS, $PWD",
    ]);
    assert_eq!(lines(&ended.stdout), BTreeSet::from(["first 0 3", "first 1 3", "2 0 2, 2 1, /"]), "{ended:?}");
}

#[test]
fn the_first_rank_has_the_input_and_the_others_none() {
    let mut job = Job::start(["-n", "3", "sh", "-c", "cat; echo end $OMPI_COMM_WORLD_RANK"], Stdio::piped());
    let mut ends = BTreeSet::from([job.line(), job.line()]);
    assert_eq!(ends, BTreeSet::from(["end 1".into(), "end 2".into()]));
    job.write("hello\n");
    assert_eq!(job.line(), "hello");
    job.write("last");
    ends.clear();
    assert_eq!(job.finish().stdout, "lastend 0\n");
}

#[test]
fn directories_are_the_ranks_own() {
    let ended = script(2, "stat -c '%a %u' $PMIX_SERVER_TMPDIR $PMIX_SERVER_TMPDIR/1 $PMIX_SERVER_TMPDIR/1/$PMIX_RANK");
    let expected = format!("700 {}", nix::unistd::getuid());
    assert_eq!(ended.stdout.lines().collect::<Vec<_>>(), vec![expected.as_str(); 6], "{ended:?}");
}

#[test]
fn applications_may_run_in_the_session_directory() {
    let script = "[ $PWD = $PMIX_SERVER_TMPDIR ] && echo there";
    let ended = run(["--set-cwd-to-session-dir", "sh", "-c", script, ":", "--wdir", "/", "sh", "-c", "echo $PWD"]);
    assert_eq!(lines(&ended.stdout), BTreeSet::from(["there", "/"]), "{ended:?}");
}

#[test]
fn what_a_rank_leaves_in_its_directories_is_removed_and_no_link_followed() {
    let kept = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kept");
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::write(kept.join("file"), "precious").unwrap();
    let ended = script(
        1,
        &format!(
            "cd $PMIX_SERVER_TMPDIR/1/0 && mkdir -p a/b && touch a/b/c && ln -s {} link && echo made",
            kept.display()
        ),
    );
    assert_eq!(ended.stdout, "made\n", "{ended:?}");
    assert_eq!(std::fs::read_to_string(kept.join("file")).unwrap(), "precious");
    std::fs::remove_dir_all(kept).unwrap();
}

#[test]
fn an_empty_name_of_the_temporary_directory_is_none() {
    let ended = Job::in_shell("TMPDIR= exec \"$0\" run sh -c 'echo $PMIX_SERVER_TMPDIR'").finish();
    assert!(ended.stdout.starts_with("/tmp/instanton-"), "{ended:?}");
}

#[test]
fn a_temporary_directory_that_cannot_be_used_is_said_once() {
    for directory in ["/no/such", "/proc", "/dev/null"] {
        let ended = Job::in_shell(&format!("TMPDIR={directory} exec \"$0\" run true")).finish();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert!(ended.stderr.contains(directory) && ended.stderr.contains("TMPDIR"), "{ended:?}");
    }
}

#[test]
fn ranks_are_bound_to_cores_on_request_and_the_launcher_is_not() {
    let allowed = |options: &[&str], of_launcher: &str| {
        // The launcher is bound itself while it starts a rank, which may look before that is over.
        let script = format!(
            "until grep -q '^Cpus_allowed_list:.{of_launcher}$' /proc/$PPID/status; do :; done
            sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status /proc/$PPID/status | tr '\\n' ' '"
        );
        let ended = run(options.iter().copied().chain(["--timeout", "60", "-n", "1", "sh", "-c", &script]));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let lists: Vec<String> = ended.stdout.split(' ').map(str::to_owned).collect();
        (lists[0].clone(), lists[1].clone())
    };
    let (rank, launcher) = allowed(&[], ".*");
    assert_eq!(rank, launcher);
    let (bound, unbound) = allowed(&["--bind-to", "core"], &launcher);
    assert_eq!(unbound, launcher);
    // A machine may have one core, or none that is known.
    assert!(bound.len() <= launcher.len(), "{bound} of {launcher}");
    if instanton::internal::sys::hwloc::place(true).is_some_and(|place| place.cores.len() > 1) {
        assert_ne!(bound, launcher);
    }
}

#[test]
fn a_low_limit_of_descriptors_is_raised_before_the_first_is_missed() {
    let ended = Job::in_shell("ulimit -Sn 14; exec \"$0\" run -n 2 echo started").finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "started\nstarted\n"), "{ended:?}");
}
