/* A small parallel debugger: a tool that looks into ranks with gdb while they wait for it.
 *   debugger attach PID WORD                 ranks of the run that users know by that process
 *   debugger launch PID PLACE PROGRAM ...    starts two ranks of a program that stop at PLACE (exec or init), and a daemon
 *                                            on each node, which looks into those beside it; without a process (-) at
 *                                            any run in reach
 *   debugger daemon WORD                     such a daemon
 *   debugger rank                            a program to be looked into
 * Each rank is shown to gdb; the answer is whether WORD is among what that says of it. Then the ranks are released. */
#define _GNU_SOURCE
#include <pmix.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 2 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ready, ends;
static pmix_proc_t waiting;

static void must(pmix_status_t status, const char *what) {
  if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED) return;
  fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
  exit(1);
}

static void heard(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                  pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *of) {
  (void)id, (void)source, (void)results, (void)nresults;
  pthread_mutex_lock(&mutex);
  const char *place = "nowhere";
  for (size_t n = 0; n < ninfo; n++) {
    if (PMIX_CHECK_KEY(&info[n], PMIX_BREAKPOINT)) place = info[n].value.data.string;
    if (PMIX_CHECK_KEY(&info[n], PMIX_EVENT_AFFECTED_PROC) && status == PMIX_READY_FOR_DEBUG) waiting = *info[n].value.data.proc;
  }
  if (status == PMIX_READY_FOR_DEBUG) {
    printf("rank %u waits: %s\n", waiting.rank, place);
    ready++;
  } else {
    ends++;
  }
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  if (done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, of);
}

static void await(const char *what, int *number, int wanted) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 60;
  pthread_mutex_lock(&mutex);
  int late = 0;
  while (*number < wanted && !late) late = pthread_cond_timedwait(&changed, &mutex, &until);
  pthread_mutex_unlock(&mutex);
  if (!late) return;
  fprintf(stderr, "%s: never\n", what);
  exit(1);
}

/* Shows a process to gdb. */
static void look(const pmix_proc_info_t *of, const char *word) {
  char *command, line[4096];
  int found = 0;
  if (asprintf(&command, "gdb -nx -batch -p %d -ex 'thread apply all backtrace' 2>/dev/null </dev/null", of->pid) < 0) exit(1);
  FILE *gdb = popen(command, "r");
  while (gdb && fgets(line, sizeof line, gdb)) found |= strstr(line, word) != NULL;
  if (gdb) pclose(gdb);
  free(command);
  printf("rank %u of %s: %s %s\n", of->proc.rank, strrchr(of->executable_name, '/'), word, found ? "found" : "not found");
}

static void look_at_all(const char *nspace, const char *table, const char *word) {
  pmix_query_t query;
  pmix_info_t *results = NULL;
  size_t count = 0;
  pmix_status_t status;
  PMIX_QUERY_CONSTRUCT(&query);
  PMIX_ARGV_APPEND(status, query.keys, table);
  must(status, table);
  PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
  PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, nspace, PMIX_STRING);
  must(PMIx_Query_info(&query, 1, &results, &count), table);
  for (size_t n = 0; n < count; n++) {
    if (results[n].value.type != PMIX_DATA_ARRAY) continue;
    pmix_proc_info_t *of = results[n].value.data.darray->array;
    for (size_t p = 0; p < results[n].value.data.darray->size; p++) look(&of[p], word);
  }
  PMIX_INFO_FREE(results, count);
  PMIX_QUERY_DESTRUCT(&query);
}

static void release(const pmix_proc_t *me, const char *nspace) {
  pmix_info_t info[2];
  pmix_proc_t all;
  bool yes = true;
  PMIX_PROC_LOAD(&all, nspace, PMIX_RANK_WILDCARD);
  PMIX_INFO_LOAD(&info[0], PMIX_EVENT_CUSTOM_RANGE, &all, PMIX_PROC);
  PMIX_INFO_LOAD(&info[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
  must(PMIx_Notify_event(PMIX_DEBUGGER_RELEASE, me, PMIX_RANGE_CUSTOM, info, 2, NULL, NULL), "the release");
}

static void listen_for_events(void) {
  pmix_status_t codes[] = {PMIX_READY_FOR_DEBUG, PMIX_EVENT_JOB_END};
  must(PMIx_Register_event_handler(codes, 2, NULL, 0, heard, NULL, NULL), "a handler");
}

static int attach(const char *pid, const char *word) {
  pmix_proc_t me;
  pmix_info_t info;
  pid_t number = atoi(pid);
  PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &number, PMIX_PID);
  must(PMIx_tool_init(&me, &info, 1), "tool_init");
  listen_for_events();
  await("ranks that wait", &ready, RANKS);
  look_at_all(waiting.nspace, PMIX_QUERY_PROC_TABLE, word);
  release(&me, waiting.nspace);
  must(PMIx_tool_finalize(), "tool_finalize");
  return 0;
}

/* Starts a job, as whose tool we hear of its end and its output. */
static void start(char **argv, int maxprocs, pmix_info_t *more, size_t given, char *nspace) {
  pmix_info_t info[8];
  pmix_app_t app;
  bool yes = true;
  PMIX_INFO_LOAD(&info[0], PMIX_NOTIFY_COMPLETION, &yes, PMIX_BOOL);
  PMIX_INFO_LOAD(&info[1], PMIX_FWD_STDOUT, &yes, PMIX_BOOL);
  for (size_t n = 0; n < given; n++) PMIX_INFO_XFER(&info[2 + n], &more[n]);
  PMIX_APP_CONSTRUCT(&app);
  app.cmd = strdup(argv[0]);
  pmix_status_t status = PMIX_SUCCESS;
  for (char **word = argv; *word && !status; word++) PMIX_ARGV_APPEND(status, app.argv, *word);
  app.maxprocs = maxprocs;
  must(PMIx_Spawn(info, 2 + given, &app, 1, nspace), argv[0]);
  PMIX_APP_DESTRUCT(&app);
}

static int launch(const char *pid, const char *place, char **program) {
  pmix_proc_t me, all;
  pmix_info_t info[3];
  pmix_nspace_t job, daemons;
  pid_t number = atoi(pid);
  bool yes = true;
  uint16_t one = 1;
  int on_exec = strcmp(place, "exec") == 0;
  PMIX_INFO_LOAD(&info[0], PMIX_SERVER_PIDINFO, &number, PMIX_PID);
  must(number > 0 ? PMIx_tool_init(&me, info, 1) : PMIx_tool_init(&me, NULL, 0), "tool_init");
  listen_for_events();
  PMIX_INFO_LOAD(&info[0], on_exec ? PMIX_DEBUG_STOP_ON_EXEC : PMIX_DEBUG_STOP_IN_INIT, &yes, PMIX_BOOL);
  start(program, RANKS, info, 1, job);
  await("ranks that wait", &ready, RANKS);
  PMIX_PROC_LOAD(&all, job, PMIX_RANK_WILDCARD);
  PMIX_INFO_LOAD(&info[0], PMIX_DEBUGGER_DAEMONS, &yes, PMIX_BOOL);
  PMIX_INFO_LOAD(&info[1], PMIX_DEBUG_TARGET, &all, PMIX_PROC);
  PMIX_INFO_LOAD(&info[2], PMIX_DEBUG_DAEMONS_PER_NODE, &one, PMIX_UINT16);
  char *own = realpath("/proc/self/exe", NULL);
  char *daemon[] = {own, "daemon", on_exec ? "_start" : "PMIx_Init", NULL};
  start(daemon, 1, info, 3, daemons);
  await("the ends of both jobs", &ends, 2);
  printf("both jobs have ended\n");
  free(own);
  must(PMIx_tool_finalize(), "tool_finalize");
  return 0;
}

static int daemon_(const char *word) {
  pmix_proc_t me, own;
  pmix_value_t *value = NULL;
  must(PMIx_tool_init(&me, NULL, 0), "tool_init of a daemon");
  listen_for_events();
  PMIX_PROC_LOAD(&own, me.nspace, PMIX_RANK_WILDCARD);
  must(PMIx_Get(&own, PMIX_DEBUG_TARGET, NULL, 0, &value), "the target");
  pmix_proc_t target = *value->data.proc;
  PMIX_VALUE_RELEASE(value);
  look_at_all(target.nspace, PMIX_QUERY_LOCAL_PROC_TABLE, word);
  fflush(stdout);
  release(&me, target.nspace);
  await("the end of the target", &ends, 1);
  must(PMIx_tool_finalize(), "tool_finalize of a daemon");
  return 0;
}

static int rank(void) {
  pmix_proc_t me;
  must(PMIx_Init(&me, NULL, 0), "init");
  printf("rank %u runs\n", me.rank);
  fflush(stdout);
  must(PMIx_Finalize(NULL, 0), "finalize");
  return 0;
}

int main(int count, char **words) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  const char *mode = count > 1 ? words[1] : "";
  if (count == 4 && strcmp(mode, "attach") == 0) return attach(words[2], words[3]);
  if (count > 4 && strcmp(mode, "launch") == 0) return launch(words[2], words[3], words + 4);
  if (count == 3 && strcmp(mode, "daemon") == 0) return daemon_(words[2]);
  if (strcmp(mode, "rank") == 0) return rank();
  fprintf(stderr, "see the top of tests/peers/debugger.c\n");
  return 2;
}
