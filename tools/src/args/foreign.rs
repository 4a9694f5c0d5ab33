//! Options of other launchers that have another name here, mean nothing here, or need what is not here.
//! `docs/OPTIONS.md` has them all.

/// Answer to an option.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// The option is this one of ours, with the same values.
    Ours(&'static [&'static str]),
    /// The option sets a variable, given by name and value, for one application or for all.
    Variable {
        /// The applications behind later colons have it too.
        is_of_all: bool,
    },
    /// The option names files of parameters, with one of these marks between them.
    Parameters {
        /// The marks.
        between: &'static [u8],
    },
    /// The option asks for what is so anyway.
    Silent,
    /// The option means nothing here, for this reason.
    Nothing(&'static str),
    /// The option cannot be served; what to do instead.
    Refused(&'static str),
}

impl Answer {
    /// The option of ours that must be there for it, without dashes.
    pub fn option(self) -> Option<&'static str> {
        match self {
            Ours(words) => words[0].strip_prefix("--"),
            Variable { .. } | Parameters { .. } => Some("set-env"),
            Silent | Nothing(_) | Refused(_) => None,
        }
    }
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

use Answer::{Nothing, Ours, Parameters, Refused, Silent, Variable};

const ONE_MACHINE: &str = "all ranks run on this machine";
const DEBUGGER: &str = "run the debugger: instanton run -n 2 xterm -e gdb ./prog, or attach it after --stop-on-exec";
const OTHER_LAUNCHER: &str = "it is for the launcher that it is an option of";

const PATTERN: &str = "use --output file=NAME:pattern, where %r is the rank";

const TABLE: [Foreign; 41] = [
    of(&["allow-run-as-root", "q", "quiet", "no-ready-msg", "report-state-on-timeout"], 0, Silent),
    of(&["personality", "gpu-support"], 1, Silent),
    of(&["prtemca", "pmixmca", "gpmixmca", "omca", "gomca"], 2, Nothing(OTHER_LAUNCHER)),
    of(&["report-events", "launch-agent", "keepalive", "singleton"], 1, Nothing(OTHER_LAUNCHER)),
    of(&["prefix", "pmix-prefix", "app-pmix-prefix", "max-vm-size"], 1, Nothing(ONE_MACHINE)),
    of(&["noprefix", "no-app-prefix", "novm", "hetero-nodes", "leave-session-attached"], 0, Nothing(ONE_MACHINE)),
    of(&["debug-daemons", "debug-daemons-file", "debug-devel", "d"], 0, Nothing("INSTANTON_TRACE=stderr tells more")),
    of(&["do-not-resolve", "use-regexp", "enable-instant-on-support", "fwd-mpirun-port"], 0, Nothing(ONE_MACHINE)),
    of(&["tree-spawn", "rr"], 0, Nothing(ONE_MACHINE)),
    of(&["set-sid", "system-server", "show-progress"], 0, Nothing(OTHER_LAUNCHER)),
    of(&["preload-binary", "s"], 0, Refused("there is no other machine to copy it to; run it where it is: ./prog")),
    of(&["preload-files"], 1, Refused("there is no other machine to copy them to; leave it out")),
    of(&["nolocal"], 0, Refused("there is no machine but this one; leave it out")),
    of(&["add-host", "add-hostfile"], 1, Refused("there is no machine but this one; leave it out")),
    of(&["dvm", "dvm-uri", "hnp"], 1, Refused("join what `instanton up` has begun by --in NAME")),
    of(&["ompi-server"], 1, Refused("all jobs of a run publish and look up at the run itself; start them in one run")),
    of(&["xterm"], 1, Refused("run the terminals: instanton run -n 2 xterm -e ./prog")),
    of(&["debugger"], 1, Refused(DEBUGGER)),
    of(&["debug", "tv"], 0, Refused(DEBUGGER)),
    of(&["tune"], 1, Parameters { between: b"," }),
    of(&["am"], 1, Parameters { between: b":," }),
    of(&["tmpdir"], 1, Refused("set TMPDIR instead")),
    of(&["xml-file"], 1, Refused("use --output xml, and redirect the output")),
    of(&["rtos"], 1, Ours(&["--runtime-options"])),
    of(&["bysocket"], 0, Ours(&["--map-by", "package"])),
    of(&["display-devel-map", "print-rank-map"], 0, Ours(&["--display", "map"])),
    of(&["display-topo"], 0, Refused("run lstopo")),
    // Of mpiexec, as MPICH's Hydra and Intel MPI have it.
    of(&["ppn", "perhost"], 1, Ours(&["--npernode"])),
    of(&["f"], 1, Ours(&["--hostfile"])),
    of(&["hosts"], 1, Ours(&["--host"])),
    of(&["l", "prepend-rank"], 0, Ours(&["--tag-output"])),
    of(&["env"], 2, Variable { is_of_all: false }),
    of(&["genv"], 2, Variable { is_of_all: true }),
    of(&["genvall", "envall"], 0, Silent),
    of(&["genvlist", "envlist"], 1, Silent),
    of(&["genvnone", "envnone"], 0, Refused("name what is not wanted by --unset-env VAR, or run env -i ./prog")),
    of(&["outfile-pattern", "errfile-pattern"], 1, Refused(PATTERN)),
    of(&["iface", "launcher", "launcher-exec", "bootstrap", "bootstrap-exec", "rmk"], 1, Nothing(ONE_MACHINE)),
    // Of srun.
    of(&["cpu-bind"], 1, Refused("use --bind-to core, hwthread, numa, package or none, or --cpu-list LIST")),
    of(&["export"], 1, Refused("use -x VAR=VALUE; all other variables are handed over anyway")),
    of(&["mpi"], 1, Nothing("the libraries of a program tell how it finds its job, or --pmi does")),
];

const fn of(names: &'static [&'static str], values: usize, answer: Answer) -> Foreign {
    Foreign { names, values, answer }
}

/// The option of that name.
pub fn find(name: &str) -> Option<&'static Foreign> {
    TABLE.iter().find(|foreign| foreign.names.contains(&name))
}
