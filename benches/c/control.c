/* The control plane of a launcher: calls that a server does not answer from memory. Under any launcher.
 *   control events COUNT      from PMIx_Notify_event of rank 0 until the handler of the last process has begun
 *   control publish COUNT     PMIx_Publish of rank 0, and PMIx_Lookup of the last rank
 *   control groups COUNT      PMIx_Group_construct and PMIx_Group_destruct of all, and fences between
 *   control spawn COUNT       PMIx_Spawn of 8 times true, and fork and exec of as many without PMIx
 *   control nothing           PMIx_Init and PMIx_Finalize  */
#include "client.h"
#include "turns.h"
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* Stock libraries up to 4.2.2 do not have it. */
#pragma weak PMIx_Info_free

extern char **environ;

enum { EVENT = -4711, CHILDREN = 8 };

/* When the handler of each rank began, in memory that all processes of the job share. */
static volatile double *begun;

static void share_times(void) {
  char path[512];
  const char *folder = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/control-bench.%s", folder ? folder : "/tmp", me.nspace);
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, size * sizeof *begun) != 0) die("%s: no shared file", path);
  begun = mmap(NULL, size * sizeof *begun, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (begun == MAP_FAILED) die("%s: cannot be mapped", path);
  close(fd);
  fence(false);
  if (me.rank == 0) unlink(path);
}

static atomic_bool is_registered;

static void handle(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                   pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data) {
  (void)id, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
  begun[me.rank] = now_us();
  done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void registered(pmix_status_t status, size_t id, void *data) {
  (void)id, (void)data;
  must(status, "PMIx_Register_event_handler");
  is_registered = true;
}

/* The time at which the last handler began; 0 while one has not begun since. */
static double last_begun(double since) {
  double last = 0;
  for (pmix_rank_t rank = 0; rank < size; rank++) {
    if (begun[rank] < since) return 0;
    last = begun[rank] > last ? begun[rank] : last;
  }
  return last;
}

/* All others wait in a fence meanwhile: what they do about the event is no part of its way. */
static void events(int count) {
  pmix_status_t code = EVENT;
  share_times();
  PMIx_Register_event_handler(&code, 1, NULL, 0, handle, registered, NULL);
  while (!is_registered) usleep(100);
  struct row events = row("event", count);
  for (int i = -WARM_UP; i < count; i++) {
    fence(false);
    if (me.rank == 0) {
      usleep(3000);
      double start = now_us(), last;
      must(PMIx_Notify_event(EVENT, &me, PMIX_RANGE_NAMESPACE, NULL, 0, NULL, NULL), "PMIx_Notify_event");
      while ((last = last_begun(start)) == 0) usleep(500);
      if (i >= 0) keep(&events, last - start);
    }
    fence(false);
  }
  write_down(&events);
}

static void publish(int count) {
  struct row publish = row("publish", count), lookup = row("look-up", count);
  for (int i = -WARM_UP; i < count; i++) {
    pmix_info_t info;
    pmix_pdata_t found;
    char key[PMIX_MAX_KEYLEN + 1], *keys[] = {key, NULL};
    memset(&info, 0, sizeof info);
    memset(&found, 0, sizeof found);
    snprintf(key, sizeof key, "port.%d", i);
    strcpy(info.key, key);
    strcpy(found.key, key);
    info.value.type = PMIX_UINT32;
    info.value.data.uint32 = i;
    fence(false);
    double start = now_us();
    if (me.rank == 0) must(PMIx_Publish(&info, 1), "PMIx_Publish");
    if (me.rank == 0 && i >= 0) keep(&publish, now_us() - start);
    fence(false);
    start = now_us();
    if (me.rank == size - 1) must(PMIx_Lookup(&found, 1, NULL, 0), "PMIx_Lookup");
    if (me.rank == size - 1 && i >= 0) keep(&lookup, now_us() - start);
    fence(false);
    if (me.rank == 0) must(PMIx_Unpublish(keys, NULL, 0), "PMIx_Unpublish");
  }
  write_down(&publish);
  write_down(&lookup);
}

static void groups(int count) {
  struct row construct = row("group construct", count), destruct = row("group destruct", count);
  struct row fences = row("fence between", count);
  pmix_proc_t *all = calloc(size, sizeof *all);
  for (pmix_rank_t rank = 0; rank < size; rank++) all[rank] = process(rank);
  for (int i = -WARM_UP; i < count; i++) {
    char name[32];
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    snprintf(name, sizeof name, "group.%d", i);
    fence(false);
    double start = now_us();
    fence(false);
    if (i >= 0) keep(&fences, now_us() - start);
    start = now_us();
    must(PMIx_Group_construct(name, all, size, NULL, 0, &results, &nresults), "PMIx_Group_construct");
    if (i >= 0) keep(&construct, now_us() - start);
    if (PMIx_Info_free != NULL) PMIx_Info_free(results, nresults);
    start = now_us();
    must(PMIx_Group_destruct(name, NULL, 0), "PMIx_Group_destruct");
    if (i >= 0) keep(&destruct, now_us() - start);
  }
  write_down(&construct);
  write_down(&destruct);
  write_down(&fences);
  free(all);
}

static void spawn(int count) {
  struct row spawned = row("spawn", count), forked = row("fork and exec", count);
  char *words[] = {"/bin/true", NULL};
  for (int i = -1; me.rank == 0 && i < count; i++) {
    pmix_app_t app;
    pmix_nspace_t nspace;
    pid_t pids[CHILDREN];
    memset(&app, 0, sizeof app);
    app.cmd = words[0];
    app.argv = words;
    app.maxprocs = CHILDREN;
    double start = now_us();
    for (int child = 0; child < CHILDREN; child++)
      if (posix_spawn(&pids[child], words[0], NULL, NULL, words, environ) != 0) die("%s: cannot be started", words[0]);
    if (i >= 0) keep(&forked, now_us() - start);
    for (int child = 0; child < CHILDREN; child++) waitpid(pids[child], NULL, 0);
    start = now_us();
    must(PMIx_Spawn(NULL, 0, &app, 1, nspace), "PMIx_Spawn");
    if (i >= 0) keep(&spawned, now_us() - start);
  }
  write_down(&spawned);
  write_down(&forked);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  int count = argc > 2 ? atoi(argv[2]) : 100;
  if (strcmp(what, "nothing") == 0) {
    must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    return 0;
  }
  join_job();
  if (strcmp(what, "events") == 0) events(count);
  if (strcmp(what, "publish") == 0) publish(count);
  if (strcmp(what, "groups") == 0) groups(count);
  if (strcmp(what, "spawn") == 0) spawn(count);
  fence(false);
  leave_job();
  return 0;
}
