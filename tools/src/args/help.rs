//! Ends of the long helps: examples, variables, keys and exit statuses.

/// End of the long help of `instanton ps`.
pub(super) const SEEN: &str = "\
Examples:
  instanton ps                jobs of all servers
  instanton ps --ranks        every rank, with its node and its process
  instanton ps --waiting      who waits in which call for whom, and since when
  instanton ps --in 4711 --json

Environment:
  COLUMNS     width of a table; by default that of the terminal, and without one as wide as its rows
  LC_ALL, LC_CTYPE, LANG   a locale without UTF-8 gets ASCII alone

Exit status:
  0    something was told
  1    no server lets tools in, or none answers
  2    the command line makes no sense
  3    no server tells what was asked for";

/// End of the long help of `instanton query`.
pub(super) const ASKED: &str = "\
Examples:
  instanton query NAMESPACES
  instanton query PROC_TABLE --for 1           of job 1
  instanton query JOB_SIZE LOCAL_PEERS --for NAMESPACE
  instanton query LOCAL_PROC_TABLE --for 1 --node 2
  instanton query MEMORY_USAGE --for 1 --with QUERY_REPORT_AVG
  instanton query instanton.waiting --json
  instanton query --keys                       what can be asked for

Exit status:
  0    something was answered
  1    no server lets tools in, or none answers
  2    the command line makes no sense
  3    no server knows the answer";

/// End of the long help of `instanton top`.
pub(super) const WATCHED: &str = "\
Keys:
  up, down, k, j        choose a job
  page up, page down    scroll the lower part
  r, tab                show the ranks of the job instead of who waits
  space                 pause, and go on
  ?                     all keys
  q, ctrl-C             end

Environment:
  NO_COLOR   no colours

Exit status:
  0    the user has ended it, or the server of --in has ended
  1    the server of --in is not there
  2    the command line makes no sense
  128+S   signal S has ended it";

/// End of the long help of `instanton events`.
pub(super) const HEARD: &str = "\
Examples:
  instanton events
  instanton events --code EVENT_PROC_TERMINATED --count 1
  instanton events --json --timeout 60

Exit status:
  0    --count or --timeout is reached, or the last server has ended
  1    no server lets tools in, or none answers
  2    the command line makes no sense";

/// End of the long help of `instanton run`.
pub(super) const EXAMPLES: &str = "\
Examples:
  instanton run -n 4 ./prog args        four ranks of one program
  instanton run -n 4 ./a : -n 2 ./b     one job of two programs: ranks 0 to 3, and 4 and 5
  instanton run -n 2 -x DEBUG=1 --wdir /tmp ./prog
  instanton run -n 4 --output tag,dir=out:nocopy ./prog
  instanton run -n 4 --mca pml ob1 ./prog
  instanton run -n 4 --hostfile hosts --timeout 600 ./prog
  instanton run -n 4 --map-by numa --bind-to core --report-bindings ./prog
  instanton run --map-by ppr:2:package:pe=4 ./prog   two ranks on each package, four cores each
  instanton run --in up -n 4 ./prog     in the `instanton up` of that name

Environment:
  INSTANTON_IN           as --in
  INSTANTON_JOB_MEMORY   as --job-memory
  INSTANTON_TRACE        stderr or a file for the trace: a line for every refusal, fallback and loss
  INSTANTON_TRACE_LEVEL  how much is traced: error, warn, info, debug or trace, or PART=LEVEL,...
  INSTANTON_TRACE_FORM=json   the trace as JSON, a document in each line
  INSTANTON_RANK_LIBRARY   as --library
  INSTANTON_STOCK_CLIENTS=off   do not serve ranks and tools that bring a stock PMIx library
  TMPDIR                 directory in which the session directory is made
  Ranks inherit the whole environment. Each is told its place by OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
  and _NODE_RANK.

Exit status:
  0    every rank has ended successfully
  N    the code of the first rank that failed, or the status that a rank has aborted with
  128+S   signal S has ended the first rank that failed
  1    the launcher cannot go on, a rank ended between Init and Finalize, or output cannot be written
  2    the command line or a file that it names makes no sense; nothing was started
  124  the time of --timeout or --spawn-timeout is over
  126  a program cannot be executed
  127  there is no such program";
