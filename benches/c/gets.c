/* PMIx_Get of every kind of key by rank 0, while the other clients of the job wait in a fence.
 *   gets [CALLS [all | far | posted | touch]]
 *     far      only the host name and the local peers of ranks anywhere in a big job
 *     posted   only what the last rank has posted: it may be on another node
 *     touch    only each peer's record once, by all ranks at the same time
 *
 * A reading of the clock costs a good part of such a Get, so a sample is the mean of BATCH calls. The result of a Get is
 * released outside the measured time. BATCH is below the seven freed blocks that glibc keeps at hand of each size, so that a
 * batch takes its memory from where a program does that releases each value before the next Get. A call that answers otherwise than it
 * should says so and has no samples. */
#include "client.h"
#include <pthread.h>

enum { BATCH = 6 };

static long calls = 20000;
static uint32_t on_this_node;

/* Questions: of which process, and with what. ELSEWHERE is a random rank of another node, a new one each time: of its own
 * node a process asks at job level, and libpmix 4.2.2 has no local peers for a rank of it. */
struct question {
  const char *row;
  pmix_rank_t rank;
  const char *key;
  const char *directive;
  pmix_status_t answer;
};

static const pmix_rank_t ELSEWHERE = PMIX_RANK_UNDEF;

/* Nothing but Gets and the clock runs between the first batch and the last: a system call makes the processor forget. */
static void measure(const struct question *question, long batches) {
  pmix_info_t info = flag(question->directive ? question->directive : "");
  pmix_value_t *values[BATCH];
  pmix_proc_t procs[BATCH];
  double *took = malloc((batches + 1) * sizeof *took);
  memset(took, 0, (batches + 1) * sizeof *took);
  long faults = page_faults();
  for (long batch = 0; batch <= batches; batch++) {
    for (int i = 0; i < BATCH; i++)
      procs[i] = process(question->rank == ELSEWHERE ? on_this_node + random_below(size - on_this_node) : question->rank);
    pmix_status_t answer = question->answer;
    double start = now_us();
    for (int i = 0; i < BATCH && answer == question->answer; i++)
      answer = PMIx_Get(&procs[i], question->key, question->directive ? &info : NULL, question->directive != NULL,
                        &values[i]);
    took[batch] = (now_us() - start) / BATCH;
    if (answer != question->answer) {
      fprintf(stderr, "%s: %s\n", question->row, PMIx_Error_string(answer));
      free(took);
      return;
    }
    for (int i = 0; i < BATCH && answer == PMIX_SUCCESS; i++) release(values[i]);
  }
  faults = page_faults() - faults;
  for (long batch = 1; batch <= batches; batch++) /* the first one warms up */
    sample(question->row, took[batch], batch == 1 ? faults : 0);
  free(took);
}

/* Each peer's record once, as a program does that connects to its peers. */
static void measure_first_touch(void) {
  for (pmix_rank_t distance = 1; distance < size; distance++) {
    pmix_proc_t peer = process((me.rank + distance) % size);
    pmix_value_t *value;
    long faults = page_faults();
    double start = now_us();
    must(PMIx_Get(&peer, "endpoint", NULL, 0, &value), "endpoint");
    double took = now_us() - start;
    sample("first touch", took, page_faults() - faults);
    release(value);
  }
}

static double of_one_thread[2];

/* One of two threads that get at the same time. */
static void *get_in_thread(void *slot) {
  pmix_value_t *value;
  double start = now_us();
  for (long i = 0; i < calls; i++) {
    must(PMIx_Get(&me, PMIX_LOCAL_RANK, NULL, 0, &value), PMIX_LOCAL_RANK);
    release(value);
  }
  *(double *)slot = (now_us() - start) / calls;
  return NULL;
}

/* Release included, unlike above: two threads cannot stop each other's clock. */
static void measure_threads(const char *row, int threads) {
  for (int round = 0; round < 11; round++) {
    pthread_t ids[2];
    for (int i = 0; i < threads; i++)
      if (pthread_create(&ids[i], NULL, get_in_thread, &of_one_thread[i]) != 0) die("no thread");
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < threads && round > 0; i++) sample(row, of_one_thread[i], 0);
  }
}

static void measure_known(void) {
  const pmix_rank_t all = PMIX_RANK_WILDCARD, own = me.rank, peer = size - 1;
  const struct question questions[] = {
      {"get job", all, PMIX_JOB_SIZE, NULL, PMIX_SUCCESS},
      {"get own", own, PMIX_LOCAL_RANK, NULL, PMIX_SUCCESS},
      {"get other", peer, PMIX_LOCAL_RANK, NULL, PMIX_SUCCESS},
      {"get own string", own, PMIX_LOCALITY_STRING, NULL, PMIX_SUCCESS},
      {"get hostname", own, PMIX_HOSTNAME, NULL, PMIX_SUCCESS},
      {"get local peers", all, PMIX_LOCAL_PEERS, NULL, PMIX_SUCCESS},
      {"get app", all, PMIX_APP_SIZE, PMIX_APP_INFO, PMIX_SUCCESS},
      {"get session", all, PMIX_UNIV_SIZE, NULL, PMIX_SUCCESS},
      {"get absent optional", peer, "no.such.key", PMIX_OPTIONAL, PMIX_ERR_NOT_FOUND},
      {"get absent immediate", peer, "no.such.key", PMIX_IMMEDIATE, PMIX_ERR_NOT_FOUND},
  };
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) measure(&questions[i], calls / BATCH);
}

static void measure_posted(void) {
  const struct question small = {"get 64", size - 1, "endpoint", NULL, PMIX_SUCCESS};
  const struct question big = {"get 4096", size - 1, "blob", NULL, PMIX_SUCCESS};
  measure(&small, calls / BATCH);
  measure(&big, calls / BATCH);
}

static void measure_all(void) {
  measure_known();
  measure_posted();
  measure_threads("get in one thread", 1);
  measure_threads("get in two threads", 2);
}

/* Each rank twice: the first read finds it not mapped yet, or checked for the first time. */
static void measure_far(void) {
  const struct question questions[][2] = {
      {{"far hostname, first", ELSEWHERE, PMIX_HOSTNAME, NULL, PMIX_SUCCESS},
       {"far hostname", ELSEWHERE, PMIX_HOSTNAME, NULL, PMIX_SUCCESS}},
      {{"far local peers, first", ELSEWHERE, PMIX_LOCAL_PEERS, NULL, PMIX_SUCCESS},
       {"far local peers", ELSEWHERE, PMIX_LOCAL_PEERS, NULL, PMIX_SUCCESS}},
  };
  uint64_t seed = random_state;
  for (int key = 0; key < 2; key++)
    for (int again = 0; again < 2; again++) {
      random_state = seed + key;
      measure(&questions[key][again], calls / BATCH);
    }
}

int main(int argc, char **argv) {
  if (argc > 1) calls = atol(argv[1]);
  const char *what = argc > 2 ? argv[2] : "all";
  join_job();
  on_this_node = get_u32(PMIX_LOCAL_SIZE);
  if (strcmp(what, "far") == 0) {
    measure_far();
  } else {
    put_bytes("endpoint", 64);
    put_bytes("blob", 4096);
    must(PMIx_Commit(), "PMIx_Commit");
    fence(true);
    if (strcmp(what, "touch") == 0) {
      measure_first_touch();
    } else if (me.rank == 0) {
      measure_first_touch();
      if (strcmp(what, "posted") == 0) measure_posted();
      else measure_all();
    }
    fence(false);
  }
  leave_job();
  return 0;
}
