/* Threads Get what their peers post anew, while those do, over several inits.
 *   reposts CYCLES FENCES [delete]
 * No value may be older than one that was seen before, nor half of one and half of another. With "delete", each rank
 * takes its key back at the end (a scope of release 7), and nobody may find it.  */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, RANKS = 16, LENGTH = 4000, DELETE_GLOBAL = 7 };

static pmix_proc_t me, everyone;
static pmix_rank_t size;
static int is_over;

static void must(int is_right, const char *what) {
  if (is_right) return;
  fprintf(stderr, "rank %u: %s\n", me.rank, what);
  exit(1);
}

static pmix_value_t *get(pmix_rank_t rank, const char *key) {
  pmix_proc_t proc;
  pmix_value_t *value = NULL;
  PMIX_PROC_LOAD(&proc, me.nspace, rank);
  must(PMIx_Get(&proc, key, NULL, 0, &value) == PMIX_SUCCESS, key);
  return value;
}

static void *look(void *none) {
  uint64_t seen[RANKS] = {0};
  while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
    for (pmix_rank_t rank = 0; rank < size; rank++) {
      pmix_value_t *number = get(rank, "number"), *text = get(rank, "text"), *local = get(rank, PMIX_LOCAL_RANK);
      must(number->data.uint64 >= seen[rank], "an older number");
      seen[rank] = number->data.uint64;
      must(strspn(text->data.string, (char[]){text->data.string[0], 0}) == strlen(text->data.string), "a torn text");
      PMIX_VALUE_RELEASE(number);
      PMIX_VALUE_RELEASE(text);
      PMIX_VALUE_RELEASE(local);
    }
  }
  return none;
}

static void post(uint64_t number) {
  char text[LENGTH];
  pmix_value_t value;
  memset(text, 'a' + number % 26, sizeof text);
  text[100 + number * 37 % (LENGTH - 100)] = 0;
  PMIX_VALUE_LOAD(&value, &number, PMIX_UINT64);
  must(PMIx_Put(PMIX_GLOBAL, "number", &value) == PMIX_SUCCESS, "PMIx_Put");
  PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
  must(PMIx_Put(PMIX_GLOBAL, "text", &value) == PMIX_SUCCESS, "PMIx_Put");
  PMIX_VALUE_DESTRUCT(&value);
  must(PMIx_Commit() == PMIX_SUCCESS, "PMIx_Commit");
}

static void fence(void) {
  pmix_info_t collect;
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
  must(PMIx_Fence(&everyone, 1, &collect, 1) == PMIX_SUCCESS, "PMIx_Fence");
}

static void take_back(void) {
  pmix_proc_t peer;
  pmix_value_t *value = NULL;
  pmix_info_t at_once;
  PMIX_PROC_LOAD(&peer, me.nspace, (me.rank + 1) % size);
  PMIX_INFO_LOAD(&at_once, PMIX_IMMEDIATE, NULL, PMIX_BOOL);
  must(PMIx_Put(DELETE_GLOBAL, "number", NULL) == PMIX_SUCCESS, "PMIx_Put that takes back");
  must(PMIx_Commit() == PMIX_SUCCESS, "PMIx_Commit");
  fence();
  must(PMIx_Get(&peer, "number", &at_once, 1, &value) == PMIX_ERR_NOT_FOUND, "a key that was taken back");
  fence();
}

int main(int argc, char **argv) {
  int cycles = argc > 1 ? atoi(argv[1]) : 1, fences = argc > 2 ? atoi(argv[2]) : 10;
  uint64_t number = 0;
  for (int cycle = 0; cycle < cycles; cycle++) {
    pthread_t threads[THREADS];
    must(PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS, "PMIx_Init");
    PMIX_PROC_LOAD(&everyone, me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *ranks = get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    size = ranks->data.uint32;
    PMIX_VALUE_RELEASE(ranks);
    must(size <= RANKS, "too many ranks");
    post(number++);
    fence();
    is_over = 0;
    for (int at = 0; at < THREADS; at++) pthread_create(&threads[at], NULL, look, NULL);
    for (int at = 0; at < fences; at++) {
      post(number++);
      fence();
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
    fence();
    if (argc > 3) take_back();
    must(PMIx_Finalize(NULL, 0) == PMIX_SUCCESS, "PMIx_Finalize");
  }
  if (me.rank == 0) printf("reposts of %u: right\n", size);
  return 0;
}
