//! Ranks whose libraries find no way to the server: their user is told.
mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{Ended, Job, example, run};

/// Programs that have nothing of a library but its name, made in a directory of their own.
struct Programs(PathBuf);

impl Programs {
    /// Compiles them; none where there is no compiler.
    fn new() -> Option<Self> {
        let unique = u32::from_le_bytes(instanton::internal::sys::random::bytes().unwrap());
        let made = Self(std::env::temp_dir().join(format!("instanton-strangers-{unique:08x}")));
        fs::create_dir_all(made.0.join("lib")).unwrap();
        let sources = [
            ("init.c", "int MPI_Init(int *a, char ***b) { return 0; }"),
            ("between.c", "int MPI_Init(int *, char ***); int between(void) { return MPI_Init(0, 0); }"),
            ("direct.c", "int MPI_Init(int *, char ***); int main(void) { return MPI_Init(0, 0); }"),
            ("indirect.c", "int between(void); int main(void) { return between(); }"),
            (
                "late.c",
                "#include <dlfcn.h>\n#include <stdio.h>\nint main(int count, char **names) { \
                 if (!dlopen(names[1], RTLD_NOW)) return 9; puts(\"loaded\"); fflush(stdout); getchar(); return 0; }",
            ),
        ];
        for (name, text) in sources {
            fs::write(made.0.join(name), text).unwrap();
        }
        let steps: [&[&str]; 5] = [
            &["-shared", "-fPIC", "-Wl,-soname,libmpich.so.12", "init.c", "-o", "lib/libmpich.so.12"],
            &["-shared", "-fPIC", "between.c", "lib/libmpich.so.12", "-o", "lib/libbetween.so"],
            &["direct.c", "lib/libmpich.so.12", "-o", "direct"],
            &["indirect.c", "-Llib", "-lbetween", "-Wl,-rpath-link,lib", "-o", "indirect"],
            &["late.c", "-ldl", "-o", "late"],
        ];
        for step in steps {
            match Command::new("cc").args(step).current_dir(&made.0).status() {
                Ok(status) => assert!(status.success(), "cc {step:?}"),
                Err(error) => {
                    println!("SKIPPED: cc: {error}");
                    return None;
                }
            }
        }
        Some(made)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// The assignment that makes the dynamic loader find the library.
    fn library_path(&self) -> String {
        format!("LD_LIBRARY_PATH={}", self.path("lib"))
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// There is one line of ours, and it says so of so many ranks.
fn assert_told(ended: &Ended, ranks: &str) {
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert_eq!((ended.code, lines.len()), (Some(0), 1), "{ended:?}");
    let words = [ranks, " ended without having attached to the PMIx server of this run", "libmpich.so.12"];
    assert!(words.iter().all(|word| lines[0].contains(word)), "{ended:?}");
}

#[test]
fn ranks_that_are_linked_with_another_library_are_told_of_in_one_line() {
    let Some(programs) = Programs::new() else { return };
    for name in ["direct", "indirect"] {
        let program = programs.path(name);
        assert_told(&run(["-n", "4", "-x", &programs.library_path(), &program]), "4 ranks");
        // Without its library the program does not begin.
        let ended = run(["-n", "1", &program]);
        assert!(ended.code == Some(127) && !ended.stderr.contains("attached"), "{ended:?}");
    }
}

#[test]
fn a_library_that_is_loaded_later_is_seen_when_the_rank_writes() {
    let Some(programs) = Programs::new() else { return };
    let (late, library) = (programs.path("late"), programs.path("lib/libmpich.so.12"));
    for wrapped in [false, true] {
        let script = format!("{late} {library}; true");
        let program = if wrapped { vec!["sh", "-c", &script] } else { vec![&*late, &library] };
        let mut job = Job::start([&["-n", "1"][..], &program].concat(), Stdio::piped());
        // The line has passed, so its writer was looked at.
        assert_eq!(job.line(), "loaded");
        job.write("\n");
        assert_told(&job.finish(), "1 rank ");
    }
}

#[test]
fn who_attaches_or_loads_no_such_library_is_not_told_of() {
    let Some(programs) = Programs::new() else { return };
    let preload = format!("LD_PRELOAD={}", programs.path("lib/libmpich.so.12"));
    for program in [vec!["-n", "2", "hostname"], vec!["-n", "2", "sh", "-c", "echo $0; hostname"]] {
        let ended = run(program);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    }
    let ended = run(["-n", "2", "-x", &preload, example("rank").to_str().unwrap(), "say"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    // Those of a launcher that is a rank itself have attached to that.
    let (own, rank) = (env!("CARGO_BIN_EXE_instanton"), example("rank"));
    let ended = run(["-n", "1", own, "run", "-n", "2", "-x", &preload, rank.to_str().unwrap(), "say"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
}
