/* Makes the calls that programs of every kind make, blocking and not, rightly and wrongly, and writes down each answer on a line
 * of its own, so that two libraries can be compared line by line.
 *   calls          everything that a rank can do with the others of its job, on any number of nodes
 *   calls events   events among the processes of a node; Slurm ends a step on any event
 *   calls spawn    starts itself again, and connects with what it has started  */
#include <pmix.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me, everyone;
static uint32_t size;

/* Result of a callback, and its waiter. */
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int calls;
  pmix_status_t status;
  char text[256];
} told_t;

#define TOLD {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, ""}

static void say(const char *format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  printf("%s%u: %s\n", getenv("CALLS_CHILD") ? "child " : "", me.rank, line);
}

static void tell(told_t *told, pmix_status_t status) {
  pthread_mutex_lock(&told->lock);
  told->status = status;
  told->calls++;
  pthread_cond_broadcast(&told->changed);
  pthread_mutex_unlock(&told->lock);
}

static void wait_for(told_t *told, int calls) {
  pthread_mutex_lock(&told->lock);
  while (told->calls < calls) pthread_cond_wait(&told->changed, &told->lock);
  pthread_mutex_unlock(&told->lock);
}

static void on_done(pmix_status_t status, void *told) { tell(told, status); }

static void on_registered(pmix_status_t status, size_t handler, void *told) {
  (void)handler;
  tell(told, status);
}

static void on_infos(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *told, pmix_release_cbfunc_t release,
                     void *released) {
  (void)info, (void)ninfo;
  if (release) release(released);
  tell(told, status);
}

/* A call that answers through a callback: its own answer, and that. */
static void say_told(const char *what, pmix_status_t answer, told_t *told) {
  if (answer == PMIX_SUCCESS) wait_for(told, 1);
  say("%s: %d, told %d", what, answer, answer == PMIX_SUCCESS ? told->status : 0);
}

static const char *text_of(const pmix_value_t *value) {
  static char text[128];
  switch (value->type) {
    case PMIX_STRING: snprintf(text, sizeof text, "\"%.40s\" of %zu", value->data.string, strlen(value->data.string)); break;
    case PMIX_BOOL: snprintf(text, sizeof text, "%d", value->data.flag); break;
    case PMIX_BYTE: case PMIX_UINT8: snprintf(text, sizeof text, "%u", value->data.uint8); break;
    case PMIX_INT8: snprintf(text, sizeof text, "%d", value->data.int8); break;
    case PMIX_INT16: snprintf(text, sizeof text, "%d", value->data.int16); break;
    case PMIX_UINT16: snprintf(text, sizeof text, "%u", value->data.uint16); break;
    case PMIX_INT: case PMIX_INT32: case PMIX_STATUS: snprintf(text, sizeof text, "%d", value->data.int32); break;
    case PMIX_UINT: case PMIX_UINT32: case PMIX_PROC_RANK: snprintf(text, sizeof text, "%u", value->data.uint32); break;
    case PMIX_INT64: case PMIX_UINT64: case PMIX_SIZE: snprintf(text, sizeof text, "%lld", (long long)value->data.int64); break;
    case PMIX_FLOAT: snprintf(text, sizeof text, "%g", value->data.fval); break;
    case PMIX_DOUBLE: snprintf(text, sizeof text, "%g", value->data.dval); break;
    case PMIX_BYTE_OBJECT: snprintf(text, sizeof text, "%zu bytes", value->data.bo.size); break;
    case PMIX_PROC: snprintf(text, sizeof text, "rank %u", value->data.proc->rank); break;
    case PMIX_DATA_ARRAY:
      snprintf(text, sizeof text, "%zu of %s", value->data.darray->size, PMIx_Data_type_string(value->data.darray->type));
      break;
    default: text[0] = 0;
  }
  return text;
}

static void get_of(const char *nspace, pmix_rank_t rank, const char *key, pmix_info_t *info, size_t ninfo) {
  pmix_value_t *value = NULL;
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, nspace, rank);
  pmix_status_t status = PMIx_Get(&proc, key, info, ninfo, &value);
  if (status != PMIX_SUCCESS) {
    say("get %s of %d: status %d", key, (int)rank, status);
    return;
  }
  say("get %s of %d: %s %s", key, (int)rank, PMIx_Data_type_string(value->type), text_of(value));
  PMIX_VALUE_RELEASE(value);
}

static void get(pmix_rank_t rank, const char *key) { get_of(me.nspace, rank, key, NULL, 0); }

static void put(pmix_scope_t scope, const char *key, const void *data, pmix_data_type_t type) {
  pmix_value_t value;
  PMIX_VALUE_LOAD(&value, data, type);
  pmix_status_t status = PMIx_Put(scope, key, &value);
  if (status != PMIX_SUCCESS) say("put %s: status %d", key, status);
  PMIX_VALUE_DESTRUCT(&value);
}

static pmix_status_t fence(bool collect) {
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  pmix_status_t status = PMIx_Fence(&everyone, 1, &info, 1);
  PMIX_INFO_DESTRUCT(&info);
  return status;
}

/* A value of every type, read by oneself and by the next rank. */
static void types(void) {
  static const pmix_data_type_t numbers[] = {PMIX_BOOL,   PMIX_BYTE,  PMIX_SIZE,   PMIX_INT,    PMIX_INT8,  PMIX_INT16,
                                             PMIX_INT32,  PMIX_INT64, PMIX_UINT,   PMIX_UINT8,  PMIX_UINT16, PMIX_UINT32,
                                             PMIX_UINT64, PMIX_STATUS, PMIX_PROC_RANK};
  static const size_t how_many = sizeof numbers / sizeof *numbers;
  char key[32];
  for (size_t i = 0; i < how_many; i++) {
    uint64_t bits = numbers[i] == PMIX_BOOL ? 1 : 100 + me.rank;
    snprintf(key, sizeof key, "c.%s", PMIx_Data_type_string(numbers[i]));
    put(PMIX_GLOBAL, key, &bits, numbers[i]);
  }
  float single = 1.5f;
  double twice = 2.5;
  put(PMIX_GLOBAL, "c.float", &single, PMIX_FLOAT);
  put(PMIX_GLOBAL, "c.double", &twice, PMIX_DOUBLE);
  put(PMIX_GLOBAL, "c.empty", "", PMIX_STRING);
  put(PMIX_GLOBAL, "c.proc", &me, PMIX_PROC);
  pmix_value_t values[32], value = {.type = PMIX_DATA_ARRAY};
  for (int i = 0; i < 32; i++) values[i].type = PMIX_UINT64, values[i].data.uint64 = 2 * i;
  pmix_data_array_t array = {PMIX_VALUE, 32, values};
  value.data.darray = &array;
  say("put an array: %d", PMIx_Put(PMIX_GLOBAL, "c.array", &value));
  char *texts[] = {"a", "b"};
  pmix_data_array_t strings = {PMIX_STRING, 2, texts};
  value.data.darray = &strings;
  say("put strings: %d", PMIx_Put(PMIX_GLOBAL, "c.strings", &value));
  say("commit: %d", PMIx_Commit());
  say("fence: %d", fence(true));
  for (uint32_t of = 0; of < 2; of++) {
    pmix_rank_t rank = (me.rank + of) % size;
    for (size_t i = 0; i < how_many; i++) {
      snprintf(key, sizeof key, "c.%s", PMIx_Data_type_string(numbers[i]));
      get(rank, key);
    }
    get(rank, "c.float"), get(rank, "c.double"), get(rank, "c.empty"), get(rank, "c.proc"), get(rank, "c.strings");
    pmix_value_t *found = NULL;
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, me.nspace, rank);
    if (PMIx_Get(&proc, "c.array", NULL, 0, &found) != PMIX_SUCCESS) continue;
    const pmix_value_t *items = found->data.darray->array;
    int right = found->data.darray->size == 32;
    for (int i = 0; right && i < 32; i++) right = items[i].type == PMIX_UINT64 && items[i].data.uint64 == 2u * i;
    say("the array of %u is %s", rank, right ? "right" : "WRONG");
    PMIX_VALUE_RELEASE(found);
  }
  fence(false);
}

static void on_value(pmix_status_t status, pmix_value_t *value, void *told) {
  snprintf(((told_t *)told)->text, sizeof((told_t *)told)->text, "%s", status ? "" : text_of(value));
  tell(told, status);
}

/* Gets of what the others have posted, and of what the first one is late with: the others of its node wait for it. */
static void delayed(void) {
  char key[32];
  told_t fenced = TOLD;
  snprintf(key, sizeof key, "late-%u", me.rank);
  put(PMIX_GLOBAL, key, key, PMIX_STRING);
  if (me.rank) say("commit: %d", PMIx_Commit());
  fence(false);
  if (!me.rank) {
    usleep(300000);
    say("commit: %d", PMIx_Commit());
  }
  pmix_status_t status = PMIx_Fence_nb(&everyone, 1, NULL, 0, on_done, &fenced);
  for (uint32_t rank = 0; rank < size; rank++) {
    told_t told = TOLD;
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, me.nspace, rank);
    snprintf(key, sizeof key, "late-%u", rank);
    say_told(key, PMIx_Get_nb(&proc, key, NULL, 0, on_value, &told), &told);
    say("%s: %s", key, told.text);
  }
  say_told("fence_nb", status, &fenced);
}

static void fences(void) {
  pmix_proc_t procs[64];
  pmix_info_t info[2];
  bool yes = true;
  int seconds = 600;
  for (uint32_t rank = 0; rank < size; rank++) PMIX_LOAD_PROCID(&procs[rank], me.nspace, rank);
  say("fence of all: %d", PMIx_Fence(NULL, 0, NULL, 0));
  say("fence of a list: %d", PMIx_Fence(procs, size, NULL, 0));
  say("fence of oneself: %d", PMIx_Fence(&procs[me.rank], 1, NULL, 0));
  if (me.rank < 2 && size > 2) say("fence of two: %d", PMIx_Fence(procs, 2, NULL, 0));
  PMIX_INFO_LOAD(&info[0], PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
  say("fence with a limit: %d", PMIx_Fence(&everyone, 1, info, 2));
  PMIX_INFO_LOAD(&info[0], "c.unknown", "hint", PMIX_STRING);
  say("fence with a hint: %d", PMIx_Fence(&everyone, 1, info, 1));
  PMIX_INFO_DESTRUCT(&info[0]);
  say("commit of nothing: %d", PMIx_Commit());
}

static void connects(void) {
  told_t on = TOLD, off = TOLD;
  say("connect: %d", PMIx_Connect(&everyone, 1, NULL, 0));
  say("disconnect: %d", PMIx_Disconnect(&everyone, 1, NULL, 0));
  say("connect nobody: %d", PMIx_Connect(NULL, 0, NULL, 0));
  say_told("connect_nb", PMIx_Connect_nb(&everyone, 1, NULL, 0, on_done, &on), &on);
  say_told("disconnect_nb", PMIx_Disconnect_nb(&everyone, 1, NULL, 0, on_done, &off), &off);
}

/* Data that is published late is waited for; data that is taken back is gone. */
static void published(void) {
  pmix_info_t info[2];
  pmix_pdata_t found[2];
  uint8_t small = 1;
  size_t large = 123456;
  int all = 0;
  char *keys[] = {"c.small", "c.large", NULL};
  if (!me.rank) {
    usleep(200000);
    PMIX_INFO_LOAD(&info[0], keys[0], &small, PMIX_UINT8);
    PMIX_INFO_LOAD(&info[1], keys[1], &large, PMIX_SIZE);
    say("publish: %d", PMIx_Publish(info, 2));
  } else {
    for (int i = 0; i < 2; i++) {
      PMIX_PDATA_CONSTRUCT(&found[i]);
      strcpy(found[i].key, keys[i]);
    }
    PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &all, PMIX_INT);
    say("lookup: %d", PMIx_Lookup(found, 2, info, 1));
    for (int i = 0; i < 2; i++) {
      say("%s from %u: %s", keys[i], found[i].proc.rank, text_of(&found[i].value));
      PMIX_PDATA_DESTRUCT(&found[i]);
    }
  }
  fence(false);
  if (!me.rank) say("unpublish: %d", PMIx_Unpublish(keys, NULL, 0));
  fence(false);
  PMIX_PDATA_CONSTRUCT(&found[0]);
  strcpy(found[0].key, keys[0]);
  say("lookup again: %d", PMIx_Lookup(found, 1, NULL, 0));
  say("publish nothing: %d", PMIx_Publish(NULL, 0));
  told_t told = TOLD;
  char own[32];
  snprintf(own, sizeof own, "c.own-%u", me.rank);
  PMIX_INFO_LOAD(&info[0], own, "text", PMIX_STRING);
  say_told("publish_nb", PMIx_Publish_nb(info, 1, on_done, &told), &told);
  PMIX_INFO_DESTRUCT(&info[0]);
  fence(false);
}

static told_t heard = TOLD;

static void on_event(size_t handler, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data) {
  (void)handler, (void)info, (void)ninfo, (void)results, (void)nresults;
  snprintf(heard.text, sizeof heard.text, "from %u", source->rank);
  if (done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
  tell(&heard, status);
}

static void events(void) {
  pmix_status_t code = PMIX_EXTERNAL_ERR_BASE - 17;
  told_t registered = TOLD, raised = TOLD;
  PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, on_registered, &registered);
  wait_for(&registered, 1);
  say("register: told %d", registered.status);
  fence(false);
  if (!me.rank) say_told("notify", PMIx_Notify_event(code, &me, PMIX_RANGE_LOCAL, NULL, 0, on_done, &raised), &raised);
  wait_for(&heard, 1);
  say("heard %d %s", heard.status, heard.text);
  fence(false);
}

/* A changed value is seen changed. */
static void renewed(void) {
  if (!me.rank) put(PMIX_GLOBAL, "c.new", "first", PMIX_STRING), PMIx_Commit();
  fence(true);
  get(0, "c.new");
  fence(true);
  if (!me.rank) put(PMIX_GLOBAL, "c.new", "second", PMIX_STRING), PMIx_Commit();
  fence(true);
  get(0, "c.new");
  fence(false);
}

static void services(void) {
  pmix_info_t info;
  told_t logged = TOLD, controlled = TOLD;
  PMIX_INFO_LOAD(&info, PMIX_LOG_STDERR, "logged\n", PMIX_STRING);
  say_told("log_nb", PMIx_Log_nb(&info, 1, NULL, 0, on_done, &logged), &logged);
  say("log nothing: %d", PMIx_Log(NULL, 0, NULL, 0));
  PMIX_INFO_DESTRUCT(&info);
  PMIX_INFO_LOAD(&info, PMIX_REGISTER_CLEANUP, "/nonexistent/file", PMIX_STRING);
  say_told("job_control_nb", PMIx_Job_control_nb(&me, 1, &info, 1, on_infos, &controlled), &controlled);
  PMIX_INFO_DESTRUCT(&info);
}

/* Limits, while nobody else does what would end the wait. */
static void deadlines(void) {
  pmix_info_t info;
  uint32_t seconds = 1;
  PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_UINT32);
  if (!me.rank) get_of(me.nspace, size - 1, "c.never", &info, 1);
  fence(false);
}

static void misuses(void) {
  pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = 1};
  pmix_proc_t again;
  char key[600];
  memset(key, 'k', sizeof key - 1);
  key[sizeof key - 1] = 0;
  say("put a long key: %d", PMIx_Put(PMIX_GLOBAL, key, &value));
  say("put for nobody: %d", PMIx_Put(77, "c.key", &value));
  say("get_nb for nobody: %d", PMIx_Get_nb(&me, PMIX_RANK, NULL, 0, NULL, NULL));
  get(size + 3, PMIX_HOSTNAME);
  say("init again: %d", PMIx_Init(&again, NULL, 0));
  say("as the same: %d", again.rank == me.rank);
  say("finalize once: %d", PMIx_Finalize(NULL, 0));
  say("initialized: %d", PMIx_Initialized());
}

/* The processes of two jobs, in one order for all. */
static size_t family(pmix_proc_t *procs, const char *parents, uint32_t nparents, const char *children, uint32_t nchildren) {
  size_t n = 0;
  for (uint32_t rank = 0; rank < nparents; rank++, n++) PMIX_LOAD_PROCID(&procs[n], parents, rank);
  for (uint32_t rank = 0; rank < nchildren; rank++, n++) PMIX_LOAD_PROCID(&procs[n], children, rank);
  return n;
}

static void meet(pmix_proc_t *procs, size_t n, const char *other) {
  say("connect: %d", PMIx_Connect(procs, n, NULL, 0));
  get_of(other, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, NULL, 0);
  get_of(other, 0, "c.family", NULL, 0);
  get_of(other, 1, PMIX_LOCAL_RANK, NULL, 0);
  say("fence of both: %d", PMIx_Fence(procs, n, NULL, 0));
  say("disconnect: %d", PMIx_Disconnect(procs, n, NULL, 0));
}

static void spawn(const char *program) {
  static const uint32_t children = 2;
  pmix_proc_t procs[64];
  char number[16], *parent = getenv("CALLS_CHILD"), *nparents = getenv("CALLS_PARENTS");
  put(PMIX_GLOBAL, "c.family", parent ? "child" : "parent", PMIX_STRING);
  if (parent) {
    say("commit: %d", PMIx_Commit());
    meet(procs, family(procs, parent, atoi(nparents), me.nspace, size), parent);
    return;
  }
  if (!me.rank) {
    pmix_nspace_t started = "";
    pmix_app_t *app;
    PMIX_APP_CREATE(app, 1);
    app->cmd = strdup(program);
    app->maxprocs = children;
    PMIX_ARGV_APPEND(app->maxprocs, app->argv, program);
    PMIX_ARGV_APPEND(app->maxprocs, app->argv, "spawn");
    snprintf(number, sizeof number, "%u", size);
    PMIX_SETENV(app->maxprocs, "CALLS_CHILD", me.nspace, &app->env);
    PMIX_SETENV(app->maxprocs, "CALLS_PARENTS", number, &app->env);
    app->maxprocs = children;
    say("spawn: %d", PMIx_Spawn(NULL, 0, app, 1, started));
    PMIX_APP_FREE(app, 1);
    put(PMIX_GLOBAL, "c.child", started, PMIX_STRING);
  }
  say("commit: %d", PMIx_Commit());
  say("fence: %d", fence(true));
  pmix_value_t *child = NULL;
  pmix_proc_t first;
  PMIX_LOAD_PROCID(&first, me.nspace, 0);
  if (PMIx_Get(&first, "c.child", NULL, 0, &child) != PMIX_SUCCESS) exit(1);
  meet(procs, family(procs, me.nspace, size, child->data.string, children), child->data.string);
  PMIX_VALUE_RELEASE(child);
}

int main(int argc, char **argv) {
  pmix_value_t *value = NULL;
  if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) return 1;
  PMIX_LOAD_PROCID(&everyone, me.nspace, PMIX_RANK_WILDCARD);
  if (PMIx_Get(&everyone, PMIX_JOB_SIZE, NULL, 0, &value) != PMIX_SUCCESS) return 1;
  size = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  if (argc == 2 && !strcmp(argv[1], "spawn")) {
    spawn(argv[0]);
  } else if (argc == 2 && !strcmp(argv[1], "events")) {
    events();
  } else {
    types(), delayed(), fences(), connects(), published(), renewed(), services(), deadlines(), misuses();
  }
  fence(false);
  say("finalize: %d", PMIx_Finalize(NULL, 0));
  return 0;
}
