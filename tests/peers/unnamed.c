/* Gets without a rank: each rank puts a key that no other has, and finds those of all by their names alone.
 * The last rank commits when the others wait for its key. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>

static pmix_proc_t me;

static void must(pmix_status_t status, const char *what) {
  if (status == PMIX_SUCCESS) return;
  fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
  exit(1);
}

static void fence(void) { must(PMIx_Fence(NULL, 0, NULL, 0), "fence"); }

static void expect(pmix_rank_t rank) {
  char key[32];
  pmix_proc_t any;
  pmix_value_t *value;
  PMIX_PROC_LOAD(&any, me.nspace, PMIX_RANK_UNDEF);
  snprintf(key, sizeof key, "unnamed-%u", rank);
  must(PMIx_Get(&any, key, NULL, 0, &value), key);
  if (value->type != PMIX_UINT32 || value->data.uint32 != rank) {
    fprintf(stderr, "rank %u: %s has type %d\n", me.rank, key, value->type);
    exit(1);
  }
  PMIX_VALUE_RELEASE(value);
}

int main(void) {
  pmix_proc_t job;
  pmix_value_t *size, mine = {.type = PMIX_UINT32};
  char key[32];
  must(PMIx_Init(&me, NULL, 0), "init");
  PMIX_PROC_LOAD(&job, me.nspace, PMIX_RANK_WILDCARD);
  must(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size), "size");
  pmix_rank_t last = size->data.uint32 - 1;
  PMIX_VALUE_RELEASE(size);
  snprintf(key, sizeof key, "unnamed-%u", me.rank);
  mine.data.uint32 = me.rank;
  must(PMIx_Put(PMIX_GLOBAL, key, &mine), "put");
  if (me.rank != last) must(PMIx_Commit(), "commit");
  fence();
  if (me.rank == last) must(PMIx_Commit(), "commit");
  for (pmix_rank_t rank = 0; rank <= last; rank++) expect(rank);
  fence();
  printf("rank %u: found\n", me.rank);
  return PMIx_Finalize(NULL, 0);
}
