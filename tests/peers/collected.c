/* Data that a collecting fence has brought is at hand: each rank posts one key anew in each round, and finds the
 * others' latest value without asking anybody, whatever node they are on. Each says whether, in a line and not by its
 * status: a launcher ends the others of a job of which one has failed, before they have said it.
 *   collected [ROUNDS]  */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmix_proc_t me, everyone;

static void must(pmix_status_t status, const char *what) {
  if (status == PMIX_SUCCESS) return;
  fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
  exit(1);
}

/* Long enough that what a node sends may be worth compressing. */
static void say(char *text, size_t size, int round, pmix_rank_t rank) {
  int len = snprintf(text, size, "round %d of rank %u ", round, rank);
  memset(text + len, 'x', size - len - 1);
  text[size - 1] = 0;
}

static void fence(int collects) {
  pmix_info_t collect;
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
  must(PMIx_Fence(&everyone, 1, &collect, collects), "PMIx_Fence");
}

int main(int argc, char **argv) {
  static char text[12000];
  int rounds = argc > 1 ? atoi(argv[1]) : 3;
  unsigned wrong = 0, all;
  pmix_value_t *value, posted;
  pmix_info_t only_here;
  must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
  PMIX_LOAD_PROCID(&everyone, me.nspace, PMIX_RANK_WILDCARD);
  must(PMIx_Get(&everyone, PMIX_JOB_SIZE, NULL, 0, &value), PMIX_JOB_SIZE);
  all = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  PMIX_INFO_LOAD(&only_here, PMIX_OPTIONAL, NULL, PMIX_BOOL);

  for (int round = 0; round < rounds; round++) {
    say(text, sizeof text, round, me.rank);
    PMIX_VALUE_LOAD(&posted, text, PMIX_STRING);
    must(PMIx_Put(PMIX_GLOBAL, "latest", &posted), "PMIx_Put");
    PMIX_VALUE_DESTRUCT(&posted);
    must(PMIx_Commit(), "PMIx_Commit");
    fence(1);
    for (unsigned next = 1; next < all; next++) {
      pmix_proc_t other = me;
      other.rank = (me.rank + next) % all;
      say(text, sizeof text, round, other.rank);
      pmix_status_t status = PMIx_Get(&other, "latest", &only_here, 1, &value);
      if (status != PMIX_SUCCESS || value->type != PMIX_STRING || strcmp(value->data.string, text) != 0) wrong++;
      if (status == PMIX_SUCCESS) PMIX_VALUE_RELEASE(value);
    }
    /* Nobody posts anew what somebody still looks at. */
    fence(0);
  }
  printf("rank %u of %u collected: %s\n", me.rank, all, wrong ? "wrong" : "right");
  must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
  return 0;
}
