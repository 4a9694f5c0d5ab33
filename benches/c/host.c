/* A host for the benchmarks: a server of one node of a job, started with any libpmix.so.2 and the clients with the same one,
 * so that a ratio compares libraries and nothing else.
 *   host [-n RANKS] [-p RANKS A NODE] [-m random|shuffled] [-c CLIENTS] [-k] [-s] [-2] [-r ROUNDS]
 *        [-b NEIGHBOUR] [PROGRAM ARGUMENTS...]
 *     -n, -p   the job, in blocks; this is node 0
 *     -m       ranks at random instead, on each node in the order of their numbers or in none
 *     -c       how many of the node's processes are started as PROGRAM
 *     -2       a second host is node 1, with as many clients; they carry each other's fences
 *     -s       clients stay on the cores in turn, and this process on the last one
 *     -k       eleven keys of each rank besides the maps
 *     -r       so many jobs, one after another
 *     -b       a program in PROGRAM's folder that takes turns with the clients: NEIGHBOUR CLIENTS ARGUMENTS...
 * Reports what registering the job took and added to this process, and how long all clients took from the opening of the
 * gate until the last had come through PMIx_Init. */
#include "gate.h"
#include "job.h"
#include "place.h"
#include "turns.h"
#include <malloc.h>
#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>

extern char **environ;

static void must(pmix_status_t status, const char *what) {
  if (status != PMIX_SUCCESS) die("host: %s: %s", what, PMIx_Error_string(status));
}

/* A call whose answer comes on another thread. */
struct call {
  pthread_mutex_t lock;
  pthread_cond_t answered;
  bool done;
  pmix_status_t status;
};

#define CALL ((struct call){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, PMIX_SUCCESS})

static void answer(pmix_status_t status, void *data) {
  struct call *call = data;
  pthread_mutex_lock(&call->lock);
  call->status = status;
  call->done = true;
  pthread_cond_signal(&call->answered);
  pthread_mutex_unlock(&call->lock);
}

static void finish(struct call *call, pmix_status_t status, const char *what) {
  if (status == PMIX_OPERATION_SUCCEEDED) return;
  must(status, what);
  pthread_mutex_lock(&call->lock);
  while (!call->done) pthread_cond_wait(&call->answered, &call->lock);
  pthread_mutex_unlock(&call->lock);
  must(call->status, what);
}

/* The host's part: everything is fine, at once. */
static pmix_status_t agree(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *data) {
  (void)proc, (void)object, (void)done, (void)data;
  return PMIX_OPERATION_SUCCEEDED;
}

/* True if processes stay on one core. */
static bool settled;


/* The other host, or -1. */
static int other = -1;

static void all_of(ssize_t (*move)(int, void *, size_t), void *bytes, size_t n) {
  for (ssize_t done; n > 0; bytes = (char *)bytes + done, n -= done)
    if ((done = move(other, bytes, n)) <= 0) die("host: the other host is gone");
}

static ssize_t put(int fd, void *bytes, size_t n) { return write(fd, bytes, n); }

/* The bytes are the host's from here on. Both hosts put before they get: what one node has to say fits into a socket. */
static pmix_status_t carry_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
                                 char *bytes, size_t nbytes, pmix_modex_cbfunc_t done, void *data) {
  (void)procs, (void)nprocs, (void)info, (void)ninfo;
  if (other < 0) {
    done(PMIX_SUCCESS, bytes, nbytes, data, free, bytes);
    return PMIX_SUCCESS;
  }
  size_t from_other;
  all_of(put, &nbytes, sizeof nbytes);
  all_of(put, bytes, nbytes);
  all_of(read, &from_other, sizeof from_other);
  char *both = malloc(nbytes + from_other);
  if (nbytes > 0) memcpy(both, bytes, nbytes);
  all_of(read, both + nbytes, from_other);
  free(bytes);
  done(PMIX_SUCCESS, both, nbytes + from_other, data, free, both);
  return PMIX_SUCCESS;
}

/* Registers the job; the inputs are gone when it returns, so that what it added to memory is the server's. */
static void register_job(const struct job *job, const pmix_nspace_t nspace) {
  struct call call = CALL;
  struct infos infos = describe(job);
  double start = now_us();
  pmix_status_t status =
      PMIx_server_register_nspace(nspace, job->clients, infos.list, infos.length, answer, &call);
  finish(&call, status, "PMIx_server_register_nspace");
  sample("register", now_us() - start, 0);
  forget(&infos);
  malloc_trim(0);
}

/* The pipes by which clients and neighbour pass the turn. */
struct turns {
  int to_clients[2], to_neighbour[2];
};

static void close_turns(const struct turns *turns) {
  for (int end = 0; end < 2; end++) {
    close(turns->to_clients[end]);
    close(turns->to_neighbour[end]);
  }
}

static pid_t start_neighbour(const char *neighbour, int clients, char **program, const struct turns *turns) {
  char path[4096], number[16], *words[16] = {path, number};
  const char *slash = strrchr(program[0], '/');
  snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash + 1 - program[0]) : 0, program[0], neighbour);
  snprintf(number, sizeof number, "%d", clients);
  for (int i = 1; program[i] && i < 14; i++) words[1 + i] = program[i];
  pid_t pid = fork();
  if (pid < 0) die("host: fork: %s", strerror(errno));
  if (pid == 0) {
    dup2(turns->to_neighbour[0], TURN);
    dup2(turns->to_clients[1], PASS);
    execv(path, words);
    die("host: %s: %s", path, strerror(errno));
  }
  return pid;
}

/* Fork-safe in every library: the environment is made before the fork. */
static pid_t start_client(const pmix_proc_t *proc, int place, char **program, int gate, int report,
                          const struct turns *turns) {
  char **environment = NULL;
  size_t n = 0;
  for (; environ[n]; n++) continue;
  environment = calloc(n + 1, sizeof *environment);
  for (size_t i = 0; i < n; i++) environment[i] = strdup(environ[i]);
  must(PMIx_server_setup_fork(proc, &environment), "PMIx_server_setup_fork");
  pid_t pid = fork();
  if (pid < 0) die("host: fork: %s", strerror(errno));
  if (pid == 0) {
    dup2(gate, GATE);
    dup2(report, REPORT);
    if (turns) {
      dup2(turns->to_clients[0], TURN);
      dup2(turns->to_neighbour[1], PASS);
    }
    if (settled) settle_client(place);
    execve(program[0], program, environment);
    die("host: %s: %s", program[0], strerror(errno));
  }
  for (size_t i = 0; environment[i]; i++) free(environment[i]);
  free(environment);
  return pid;
}

static double next_report(int reports) {
  double moment;
  ssize_t n = read(reports, &moment, sizeof moment);
  if (n != sizeof moment) die("host: a client ended before it had joined");
  return moment;
}

/* Starts the clients, opens the gate when all stand there, and waits for their ends. */
static void run_clients(const struct job *job, const pmix_nspace_t nspace, char **program, const char *neighbour) {
  int gate[2], reports[2], failed = 0;
  pid_t *pids = calloc(job->clients, sizeof *pids), beside = 0;
  struct turns turns;
  if (pipe2(gate, O_CLOEXEC) != 0 || pipe2(reports, O_CLOEXEC) != 0) die("host: pipe: %s", strerror(errno));
  if (neighbour) {
    if (pipe2(turns.to_clients, O_CLOEXEC) != 0 || pipe2(turns.to_neighbour, O_CLOEXEC) != 0)
      die("host: pipe: %s", strerror(errno));
    beside = start_neighbour(neighbour, job->clients, program, &turns);
  }
  for (int i = 0; i < job->clients; i++) {
    struct call call = CALL;
    pmix_proc_t proc;
    memset(&proc, 0, sizeof proc);
    strcpy(proc.nspace, nspace);
    proc.rank = rank_at(job, job->node, i);
    finish(&call, PMIx_server_register_client(&proc, getuid(), getgid(), NULL, answer, &call),
           "PMIx_server_register_client");
    pids[i] = start_client(&proc, i, program, gate[0], reports[1], neighbour ? &turns : NULL);
  }
  if (neighbour) close_turns(&turns);
  close(gate[0]);
  close(reports[1]);
  for (int i = 0; i < job->clients; i++) next_report(reports[0]);
  double open = now_us(), last = open;
  close(gate[1]);
  for (int i = 0; i < job->clients; i++) {
    double moment = next_report(reports[0]);
    if (moment > last) last = moment;
  }
  close(reports[0]);
  sample("init of all", last - open, 0);
  for (int i = 0, status; i < job->clients; i++) failed |= waitpid(pids[i], &status, 0) != pids[i] || status != 0;
  free(pids);
  if (failed) die("host: a client of %s failed", nspace);
  int status;
  if (neighbour && (waitpid(beside, &status, 0) != beside || status != 0)) die("host: %s failed", neighbour);
}

/* Becomes two hosts that can talk to each other; the first is given the second's id. */
static pid_t split(struct job *job) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) die("host: socketpair: %s", strerror(errno));
  pid_t pid = fork();
  if (pid < 0) die("host: fork: %s", strerror(errno));
  job->node = pid == 0;
  other = ends[job->node];
  close(ends[!job->node]);
  return pid;
}

int main(int argc, char **argv) {
  struct job job = {.ranks = 1, .per_node = 32, .clients = 0};
  int rounds = 1, option;
  bool two = false;
  const char *neighbour = NULL, *map = NULL;
  while ((option = getopt(argc, argv, "+n:p:m:c:ksr:2b:")) != -1) {
    if (option == 'n') job.ranks = strtoul(optarg, NULL, 10);
    else if (option == 'p') job.per_node = strtoul(optarg, NULL, 10);
    else if (option == 'm') map = optarg;
    else if (option == 'c') job.clients = atoi(optarg);
    else if (option == 'k') job.keys = true;
    else if (option == 's') settled = true;
    else if (option == '2') two = true;
    else if (option == 'r') rounds = atoi(optarg);
    else if (option == 'b') neighbour = optarg;
    else return 2;
  }
  /* Keys of each rank are those of blocks. */
  if (map && job.keys) return 2;
  if (map) place_at_random(&job, strcmp(map, "random") == 0);
  char **program = argv + optind;
  pmix_server_module_t module = {.client_connected = agree, .client_finalized = agree, .fence_nb = carry_fence};
  pid_t second = two ? split(&job) : 0;
  char name[256];
  node_name(job.node, name);
  pmix_info_t hostname = text(PMIX_HOSTNAME, name);
  if (settled) settle_server(); /* its threads stay with it */
  must(PMIx_server_init(&module, &hostname, 1), "PMIx_server_init");
  make_maps(&job);
  malloc_trim(0);
  for (int round = 0; round < rounds; round++) {
    pmix_nspace_t nspace;
    struct call call = CALL;
    snprintf(nspace, sizeof nspace, "bench-%d@1", round);
    double before = resident_bytes();
    register_job(&job, nspace);
    sample("server grows", resident_bytes() - before, 0);
    if (job.clients > 0 && *program) run_clients(&job, nspace, program, neighbour);
    sample("server resident", resident_bytes(), 0);
    flush_samples();
    PMIx_server_deregister_nspace(nspace, answer, &call);
    finish(&call, PMIX_SUCCESS, "PMIx_server_deregister_nspace");
  }
  flush_samples();
  must(PMIx_server_finalize(), "PMIx_server_finalize");
  int status = 0;
  return second > 0 && (waitpid(second, &status, 0) != second || status != 0);
}
