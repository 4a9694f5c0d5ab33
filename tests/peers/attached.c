/* A tool that attaches to the server of a process and does all that tools do there:
 *   attached PID             by the process that users know
 *   attached uri ADDRESS     by an address, or file:NAME
 *   attached nspace NAME     by the server's own name
 * Statuses are written as numbers: names differ between libraries. The job that the server runs writes ticks, until this
 * tool ends it. */
#define _GNU_SOURCE
#include <pmix.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ticks, ends, custom;

static void said(const char *what, pmix_status_t status) {
  if (status == PMIX_OPERATION_SUCCEEDED) status = PMIX_SUCCESS;
  printf("%s: %d\n", what, status);
  fflush(stdout);
}

static void count(int *number) {
  pthread_mutex_lock(&mutex);
  ++*number;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

/* Waits until something has happened, which lasts as long as the launcher takes. */
static void await(const char *what, int *number) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 20;
  pthread_mutex_lock(&mutex);
  int late = 0;
  while (!*number && !late) late = pthread_cond_timedwait(&changed, &mutex, &until);
  printf("%s: %s\n", what, *number ? "yes" : "never");
  fflush(stdout);
  pthread_mutex_unlock(&mutex);
}

static void heard(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                  pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *of) {
  (void)id, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
  count(status == PMIX_EVENT_JOB_END ? &ends : &custom);
  if (done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, of);
}

static void output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *bytes,
                   pmix_info_t info[], size_t ninfo) {
  (void)id, (void)channel, (void)source, (void)info, (void)ninfo;
  if (bytes && bytes->bytes && memmem(bytes->bytes, bytes->size, "tick", 4)) count(&ticks);
}

static void ask(const char *key, const char *nspace) {
  pmix_query_t query;
  pmix_info_t *results = NULL;
  size_t answers = 0;
  pmix_status_t status;
  PMIX_QUERY_CONSTRUCT(&query);
  PMIX_ARGV_APPEND(status, query.keys, key);
  if (nspace) {
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, nspace, PMIX_STRING);
  }
  status = PMIx_Query_info(&query, 1, &results, &answers);
  printf("query %s: %d", key, status);
  if (!status && answers && results[0].value.type == PMIX_DATA_ARRAY)
    printf(", an array of %zu", results[0].value.data.darray->size);
  printf("\n");
  if (results) PMIX_INFO_FREE(results, answers);
  PMIX_QUERY_DESTRUCT(&query);
}

static void get(const pmix_proc_t *proc, const char *key) {
  pmix_value_t *value = NULL;
  pmix_status_t status = PMIx_Get(proc, key, NULL, 0, &value);
  printf("get %s of %d: %d", key, (int)proc->rank, status);
  if (!status && value->type == PMIX_UINT32) printf(", %u", value->data.uint32);
  if (!status && value->type == PMIX_UINT16) printf(", %u", value->data.uint16);
  printf("\n");
  if (value) PMIX_VALUE_RELEASE(value);
}

static void publish(void) {
  pmix_info_t item;
  pmix_pdata_t found;
  char *keys[] = {"attached.key", NULL};
  int number = 42;
  PMIX_INFO_LOAD(&item, keys[0], &number, PMIX_INT);
  said("publish", PMIx_Publish(&item, 1));
  PMIX_PDATA_CONSTRUCT(&found);
  snprintf(found.key, sizeof found.key, "%s", keys[0]);
  said("lookup", PMIx_Lookup(&found, 1, NULL, 0));
  printf("found: %d\n", found.value.type == PMIX_INT ? found.value.data.integer : -1);
  said("unpublish", PMIx_Unpublish(keys, NULL, 0));
}

static void spawn(void) {
  pmix_app_t app;
  pmix_nspace_t nspace = "";
  pmix_status_t appended;
  PMIX_APP_CONSTRUCT(&app);
  app.cmd = strdup("/bin/true");
  PMIX_ARGV_APPEND(appended, app.argv, "/bin/true");
  said("arguments", appended);
  app.maxprocs = 1;
  pmix_info_t where[2];
  /* There may be no processor left. */
  PMIX_INFO_LOAD(&where[0], PMIX_MAPBY, "slot:OVERSUBSCRIBE", PMIX_STRING);
  PMIX_INFO_LOAD(&where[1], PMIX_BINDTO, "none", PMIX_STRING);
  said("spawn", PMIx_Spawn(where, 2, &app, 1, nspace));
  printf("a job was started: %s\n", nspace[0] ? "yes" : "no");
  PMIX_APP_DESTRUCT(&app);
}

int main(int words, char **word) {
  pmix_proc_t me, server, job, *servers = NULL;
  pmix_info_t info[1];
  size_t count = 0;
  if (words > 2) {
    const char *key = strcmp(word[1], "uri") ? PMIX_SERVER_NSPACE : PMIX_SERVER_URI;
    PMIX_INFO_LOAD(&info[0], key, word[2], PMIX_STRING);
  } else {
    pid_t pid = atoi(word[1]);
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_PIDINFO, &pid, PMIX_PID);
  }
  pmix_status_t status = PMIx_tool_init(&me, info, 1);
  said("init", status);
  if (status) return 1;
  said("servers", PMIx_tool_get_servers(&servers, &count));
  if (count) server = servers[0];
  printf("of servers: %zu, named by it: %s\n", count, strncmp(me.nspace, server.nspace, 8) ? "no" : "yes");

  /* The first job of a launcher is its second namespace. */
  char name[PMIX_MAX_NSLEN + 1];
  snprintf(name, sizeof name, "%s", server.nspace);
  char *at = strrchr(name, '@');
  if (at) strcpy(at, "@1");
  PMIX_PROC_LOAD(&job, name, PMIX_RANK_WILDCARD);
  ask(PMIX_QUERY_NAMESPACES, NULL);
  ask(PMIX_QUERY_PROC_TABLE, name);
  ask(PMIX_QUERY_LOCAL_PROC_TABLE, name);
  ask(PMIX_QUERY_JOB_STATUS, name);
  ask(PMIX_QUERY_NAMESPACE_INFO, NULL);
  ask("attached.no.such.key", NULL);
  get(&job, PMIX_JOB_SIZE);
  get(&job, PMIX_UNIV_SIZE);
  get(&job, "attached.no.such.key");
  job.rank = 1;
  get(&job, PMIX_LOCAL_RANK);
  get(&job, PMIX_APPNUM);
  job.rank = PMIX_RANK_WILDCARD;

  pmix_status_t codes[] = {PMIX_EVENT_JOB_END, PMIX_EXTERNAL_ERR_BASE - 7};
  said("registered", PMIx_Register_event_handler(codes, 2, NULL, 0, heard, NULL, NULL) < 0 ? -1 : 0);
  said("notify", PMIx_Notify_event(codes[1], &me, PMIX_RANGE_GLOBAL, NULL, 0, NULL, NULL));
  await("own event heard", &custom);
  said("pull", PMIx_IOF_pull(&job, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, output, NULL, NULL) < 0 ? -1 : 0);
  await("output came", &ticks);
  publish();
  PMIX_INFO_LOAD(&info[0], PMIX_LOG_STDERR, "logged by a tool\n", PMIX_STRING);
  said("log", PMIx_Log(info, 1, NULL, 0));
  spawn();
  bool yes = true;
  PMIX_INFO_LOAD(&info[0], PMIX_JOB_CTRL_KILL, &yes, PMIX_BOOL);
  said("job control", PMIx_Job_control(&job, 1, info, 1, NULL, NULL));
  await("end of a job heard", &ends);
  said("finalize", PMIx_tool_finalize());
  return 0;
}
