/* A job whose rank KILLER kills somebody, by SIGKILL, at some moment of its life.
 *   killer KILLER VICTIM STEP MICROSECONDS
 * VICTIM is "rank", itself; "server", its parent; or "launcher", whose number the environment has. STEP is the call that
 * it makes when its thread begins to wait so long: 0 Init, 1 Commit, 2 Fence, 3 Get, 4 a Get of what nobody posts, 5
 * Finalize. Every rank makes all of these, and ends at the first that fails. A rank on a stock library ends with its
 * server: PMIx_Commit and PMIx_Fence of 4.2.2 may wait for one that is gone for ever, in 5 of 100 jobs of 4 ranks
 * without the plug-in. */
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static pid_t victim;
static useconds_t delay;
static pthread_t killer;

static void *killing(void *none) {
  usleep(delay);
  if (kill(victim, SIGKILL) != 0) perror("kill");
  return none;
}

static void begin(int step, int wanted) {
  if (step == wanted) pthread_create(&killer, NULL, killing, NULL);
}

static void may_fail(pmix_status_t status) {
  if (status != PMIX_SUCCESS) exit(1);
}

int main(int argc, char **argv) {
  if (argc != 5) return 64;
  const char *rank = getenv("PMIX_RANK"), *launcher = getenv("INSTANTON_TEST_LAUNCHER");
  int step = rank && strcmp(rank, argv[1]) == 0 ? atoi(argv[3]) : -1;
  victim = strcmp(argv[2], "rank") == 0 ? getpid() : strcmp(argv[2], "server") == 0 ? getppid() : atoi(launcher);
  delay = atoi(argv[4]);

  pmix_proc_t me, everyone, peer;
  pmix_value_t value, *found;
  pmix_info_t collect;
  uint32_t number = 7, size;
  if (strstr(PMIx_Get_version(), "Instanton") == NULL) prctl(PR_SET_PDEATHSIG, SIGKILL);
  begin(0, step);
  may_fail(PMIx_Init(&me, NULL, 0));
  PMIX_PROC_LOAD(&everyone, me.nspace, PMIX_RANK_WILDCARD);
  may_fail(PMIx_Get(&everyone, PMIX_JOB_SIZE, NULL, 0, &found));
  size = found->data.uint32;
  PMIX_VALUE_RELEASE(found);
  PMIX_PROC_LOAD(&peer, me.nspace, (me.rank + 1) % size);
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
  for (int round = 0; round < 20; round++) {
    PMIX_VALUE_LOAD(&value, &number, PMIX_UINT32);
    may_fail(PMIx_Put(PMIX_GLOBAL, "number", &value));
    if (round == 10) begin(1, step);
    may_fail(PMIx_Commit());
    if (round == 10) begin(2, step);
    may_fail(PMIx_Fence(&everyone, 1, &collect, 1));
    if (round == 10) begin(3, step);
    may_fail(PMIx_Get(&peer, "number", NULL, 0, &found));
    PMIX_VALUE_RELEASE(found);
  }
  if (atoi(argv[3]) == 4) {
    begin(4, step);
    PMIx_Get(&peer, "nobody posts it", NULL, 0, &found);
  }
  begin(5, step);
  PMIx_Finalize(NULL, 0);
  if (step >= 0) pthread_join(killer, NULL);
  return 0;
}
