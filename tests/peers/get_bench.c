/* Costs of the calls of a PMIx client. One binary for every launcher and every libpmix.so.2, so that a
 * comparison compares those and nothing else.
 *   get_bench [CALLS]
 * Rank 0 measures while the other ranks wait in a fence (in fences, all take part) and prints a line for
 * each call:  LABEL <tab> median in us <tab> 99th percentile in us,  or "-" where the call failed.  */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 8, FENCES = 50, COMMITS = 200 };

static pmix_proc_t me, everyone, peer;
static pmix_rank_t size;
static double *samples;
static long calls = 20000;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void must(pmix_status_t status, const char *what) {
  if (status == PMIX_SUCCESS) return;
  fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
  exit(1);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void report(const char *label, long count) {
  if (me.rank != 0) return;
  if (count == 0) {
    printf("%s\t-\t-\n", label);
    return;
  }
  qsort(samples, count, sizeof *samples, ascending);
  printf("%s\t%.3f\t%.3f\n", label, samples[count / 2], samples[count * 99 / 100]);
}

static void fence(int collect) {
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
  must(PMIx_Fence(&everyone, 1, collect ? &info : NULL, collect ? 1 : 0), "PMIx_Fence");
}

/* A clock reading costs a good part of such a Get, so a sample is the mean of a small batch. The value that a Get
 * returns is released outside the measured time. */
static void measure_gets(const char *label, const pmix_proc_t *proc, const char *key, const char *directive,
                         pmix_status_t expected) {
  pmix_info_t info;
  pmix_value_t *values[BATCH];
  if (directive) PMIX_INFO_LOAD(&info, directive, NULL, PMIX_BOOL);
  long count = 0;
  for (long done = 0; done < calls + BATCH; done += BATCH) {
    int wrong = 0;
    double start = now_us();
    for (int i = 0; i < BATCH; i++)
      wrong |= PMIx_Get(proc, key, directive ? &info : NULL, directive ? 1 : 0, &values[i]) != expected;
    double took = (now_us() - start) / BATCH;
    for (int i = 0; i < BATCH && expected == PMIX_SUCCESS && !wrong; i++) PMIX_VALUE_RELEASE(values[i]);
    if (wrong) {
      count = 0;
      break;
    }
    if (done > 0) samples[count++] = took; /* the first batch warms up */
  }
  report(label, count);
}

static void measure_first_touch(void) {
  pmix_value_t *value;
  long count = 0;
  for (pmix_rank_t rank = 1; rank < size; rank++) {
    pmix_proc_t other;
    PMIX_PROC_LOAD(&other, me.nspace, rank);
    double start = now_us();
    must(PMIx_Get(&other, "endpoint", NULL, 0, &value), "endpoint");
    samples[count++] = now_us() - start;
    PMIX_VALUE_RELEASE(value);
  }
  report("Get: first touch of a peer", count);
}

static void put_bytes(const char *key, size_t length) {
  pmix_value_t value;
  char *bytes = malloc(length);
  for (size_t i = 0; i < length; i++) bytes[i] = (char)(i * 37 + me.rank);
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = bytes;
  value.data.bo.size = length;
  must(PMIx_Put(PMIX_GLOBAL, key, &value), "PMIx_Put");
  free(bytes);
}

static void measure_puts(void) {
  double commits[COMMITS];
  for (int i = 0; i < COMMITS; i++) {
    double start = now_us();
    put_bytes("endpoint", 64);
    double put = now_us();
    must(PMIx_Commit(), "PMIx_Commit");
    commits[i] = now_us() - put;
    samples[i] = put - start;
  }
  report("Put, 64 B", COMMITS);
  memcpy(samples, commits, sizeof commits);
  report("Commit, 64 B", COMMITS);
}

static void measure_fences(const char *label, int collect) {
  for (int i = 0; i < FENCES; i++) {
    if (collect) {
      put_bytes("endpoint", 64);
      must(PMIx_Commit(), "PMIx_Commit");
    }
    double start = now_us();
    fence(collect);
    samples[i] = now_us() - start;
  }
  report(label, FENCES);
}

int main(int argc, char **argv) {
  pmix_value_t *value;
  if (argc > 1) calls = atol(argv[1]);
  samples = malloc(sizeof *samples * (calls + FENCES + COMMITS + 100000));

  double start = now_us();
  must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
  samples[0] = now_us() - start;
  report("Init", 1);

  PMIX_PROC_LOAD(&everyone, me.nspace, PMIX_RANK_WILDCARD);
  must(PMIx_Get(&everyone, PMIX_JOB_SIZE, NULL, 0, &value), PMIX_JOB_SIZE);
  size = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  PMIX_PROC_LOAD(&peer, me.nspace, size - 1);

  fence(0);
  if (me.rank == 0) measure_puts();
  put_bytes("endpoint", 64);
  put_bytes("blob", 4096);
  must(PMIx_Commit(), "PMIx_Commit");
  fence(1);

  if (me.rank == 0) {
    measure_first_touch();
    measure_gets("Get: job, JOB_SIZE", &everyone, PMIX_JOB_SIZE, NULL, PMIX_SUCCESS);
    measure_gets("Get: job, LOCAL_PEERS", &everyone, PMIX_LOCAL_PEERS, NULL, PMIX_SUCCESS);
    measure_gets("Get: session, UNIV_SIZE", &everyone, PMIX_UNIV_SIZE, NULL, PMIX_SUCCESS);
    measure_gets("Get: own LOCAL_RANK", &me, PMIX_LOCAL_RANK, NULL, PMIX_SUCCESS);
    measure_gets("Get: own APPNUM", &me, PMIX_APPNUM, NULL, PMIX_SUCCESS);
    measure_gets("Get: own HOSTNAME", &me, PMIX_HOSTNAME, NULL, PMIX_SUCCESS);
    measure_gets("Get: peer's LOCAL_RANK", &peer, PMIX_LOCAL_RANK, NULL, PMIX_SUCCESS);
    measure_gets("Get: peer's key, 64 B", &peer, "endpoint", NULL, PMIX_SUCCESS);
    measure_gets("Get: peer's key, 4 KiB", &peer, "blob", NULL, PMIX_SUCCESS);
    measure_gets("Get: absent, OPTIONAL", &peer, "no.such.key", PMIX_OPTIONAL, PMIX_ERR_NOT_FOUND);
    measure_gets("Get: absent, IMMEDIATE", &peer, "no.such.key", PMIX_IMMEDIATE, PMIX_ERR_NOT_FOUND);
  }

  fence(0);
  measure_fences("Fence without data", 0);
  measure_fences("Fence with data", 1);
  start = now_us();
  must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
  samples[0] = now_us() - start;
  report("Finalize", 1);
  return 0;
}
