//! Options of other launchers that mean nothing here, or need what is not here. `docs/OPTIONS.md` has them all.

/// Answer to an option.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// It is so anyway.
    Silent,
    /// It means nothing here, for this reason.
    Nothing(&'static str),
    /// It cannot be done; what to do instead.
    Refused(&'static str),
}

/// An option of other launchers.
#[derive(Debug)]
pub struct Foreign {
    /// Its names, without dashes.
    names: &'static [&'static str],
    /// Words that follow it.
    pub values: usize,
    /// Answer to it.
    pub answer: Answer,
}

use Answer::{Nothing, Refused, Silent};

const ONE_MACHINE: &str = "all ranks run on this machine";
const DEBUGGER: &str = "run the debugger: instanton run -n 2 xterm -e gdb ./prog, or attach it after --stop-on-exec";
const OTHER_LAUNCHER: &str = "it is for the launcher that it is an option of";

const TABLE: [Foreign; 21] = [
    of(&["allow-run-as-root", "q", "quiet", "no-ready-msg", "report-state-on-timeout"], 0, Silent),
    of(&["personality", "gpu-support"], 1, Silent),
    of(&["prtemca", "pmixmca", "gpmixmca", "omca", "gomca"], 2, Nothing(OTHER_LAUNCHER)),
    of(&["report-events", "launch-agent", "keepalive", "singleton"], 1, Nothing(OTHER_LAUNCHER)),
    of(&["prefix", "pmix-prefix", "app-pmix-prefix", "max-vm-size"], 1, Nothing(ONE_MACHINE)),
    of(&["noprefix", "no-app-prefix", "novm", "hetero-nodes", "leave-session-attached"], 0, Nothing(ONE_MACHINE)),
    of(&["debug-daemons", "debug-daemons-file", "debug-devel", "d"], 0, Nothing("INSTANTON_TRACE=stderr tells more")),
    of(&["do-not-resolve", "use-regexp", "enable-instant-on-support", "fwd-mpirun-port"], 0, Nothing(ONE_MACHINE)),
    of(&["set-sid", "system-server", "show-progress"], 0, Nothing(OTHER_LAUNCHER)),
    of(&["preload-binary", "s"], 0, Refused("there is no other machine to copy it to; run it where it is: ./prog")),
    of(&["preload-files"], 1, Refused("there is no other machine to copy them to; leave it out")),
    of(&["nolocal"], 0, Refused("there is no machine but this one; leave it out")),
    of(&["add-host", "add-hostfile"], 1, Refused("there is no machine but this one; leave it out")),
    of(&["dvm", "hnp"], 1, Refused("join what `instanton up` has begun by --in NAME")),
    of(&["ompi-server"], 1, Refused("all jobs of a run publish and look up at the run itself; start them in one run")),
    of(&["xterm"], 1, Refused("run the terminals: instanton run -n 2 xterm -e ./prog")),
    of(&["debugger"], 1, Refused(DEBUGGER)),
    of(&["debug", "tv"], 0, Refused(DEBUGGER)),
    of(&["tune", "am"], 1, Refused("give its parameters by --mca NAME VALUE and -x VAR=VALUE")),
    of(&["tmpdir"], 1, Refused("set TMPDIR instead")),
    of(&["xml-file"], 1, Refused("use --output xml, and redirect the output")),
];

const fn of(names: &'static [&'static str], values: usize, answer: Answer) -> Foreign {
    Foreign { names, values, answer }
}

/// The option of that name.
pub fn find(name: &str) -> Option<&'static Foreign> {
    TABLE.iter().find(|foreign| foreign.names.contains(&name))
}
