/* Direct modex: keys are fetched from the ranks that put them although no fence collected any.
 * Rank R puts, at every scope, a key that says who wrote it, and the last rank one more after the fence, which the
 * others of its node already wait for: other nodes are sent what a rank has posted when they ask.  A REMOTE key must not be seen on the node of its writer, a LOCAL one on no other.  */
#include <pmix.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmix_proc_t me;

static void must(pmix_status_t status, const char *what) {
  if (status == PMIX_SUCCESS) return;
  fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
  exit(1);
}

static void put(pmix_scope_t scope, const char *key) {
  char text[64];
  pmix_value_t value;
  snprintf(text, sizeof text, "%s of rank %u", key, me.rank);
  PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
  must(PMIx_Put(scope, key, &value), key);
  PMIX_VALUE_DESTRUCT(&value);
}

/* The key of that rank must say so, by then where there is a limit. */
static void expect_in(int seconds, pmix_rank_t rank, const char *key) {
  char text[64];
  pmix_proc_t proc;
  pmix_value_t *value;
  pmix_info_t limit;
  PMIX_PROC_LOAD(&proc, me.nspace, rank);
  PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
  snprintf(text, sizeof text, "%s of rank %u", key, rank);
  must(PMIx_Get(&proc, key, &limit, seconds != 0, &value), text);
  if (value->type != PMIX_STRING || strcmp(value->data.string, text) != 0) {
    fprintf(stderr, "rank %u: expected \"%s\", type %d\n", me.rank, text, value->type);
    exit(1);
  }
  PMIX_VALUE_RELEASE(value);
}

static void expect_absent(pmix_rank_t rank, const char *key) {
  pmix_proc_t proc;
  pmix_value_t *value;
  pmix_info_t only_here;
  PMIX_PROC_LOAD(&proc, me.nspace, rank);
  PMIX_INFO_LOAD(&only_here, PMIX_OPTIONAL, NULL, PMIX_BOOL);
  if (PMIx_Get(&proc, key, &only_here, 1, &value) == PMIX_SUCCESS) {
    fprintf(stderr, "rank %u: sees %s of rank %u\n", me.rank, key, rank);
    exit(1);
  }
}

static void expect(pmix_rank_t rank, const char *key) { expect_in(0, rank, key); }

/* Returns whether a rank runs on this node. */
static int is_here(const char *peers, pmix_rank_t rank) {
  for (char *end; *peers; peers = *end ? end + 1 : end)
    if (strtoul(peers, &end, 10) == rank) return 1;
  return 0;
}

int main(void) {
  pmix_proc_t everyone;
  pmix_value_t *value, *peers;
  must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
  PMIX_PROC_LOAD(&everyone, me.nspace, PMIX_RANK_WILDCARD);
  must(PMIx_Get(&everyone, PMIX_JOB_SIZE, NULL, 0, &value), "job size");
  pmix_rank_t size = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  must(PMIx_Get(&everyone, PMIX_LOCAL_PEERS, NULL, 0, &peers), "local peers");

  put(PMIX_GLOBAL, "global");
  put(PMIX_LOCAL, "local");
  put(PMIX_REMOTE, "remote");
  must(PMIx_Commit(), "PMIx_Commit");
  must(PMIx_Fence(&everyone, 1, NULL, 0), "PMIx_Fence");

  for (pmix_rank_t rank = 0; rank < size; rank++) {
    expect(rank, "global");
    int here = is_here(peers->data.string, rank);
    expect(rank, here ? "local" : "remote");
    if (rank != me.rank) expect_absent(rank, here ? "remote" : "local");
  }

  /* The last rank dawdles, so that the others are waiting when its key comes; they must be right if not, too. */
  if (me.rank == size - 1) {
    poll(NULL, 0, 100);
    put(PMIX_GLOBAL, "late");
    must(PMIx_Commit(), "PMIx_Commit");
  }
  if (is_here(peers->data.string, size - 1)) expect_in(600, size - 1, "late");
  PMIX_VALUE_RELEASE(peers);

  must(PMIx_Fence(&everyone, 1, NULL, 0), "PMIx_Fence");
  if (me.rank == 0) printf("direct modex of %u: right\n", size);
  must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
  return 0;
}
