/* Does COUNT Gets of job, node, process and peer keys between two marks that a system call tracer can see:
 *   strace -f -o FILE quiet_gets COUNT [plain]
 * All other system calls that FILE shows between "gets begin" and "gets end" are those of a Get.  Plain ones
 * ask for nothing that a library looks up for a node.  */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me, everyone, peer;
static int is_plain;

static void must(pmix_status_t status, const char *what) {
  if (status == PMIX_SUCCESS) return;
  fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
  exit(1);
}

static void get(const pmix_proc_t *proc, const char *key) {
  pmix_value_t *value;
  must(PMIx_Get(proc, key, NULL, 0, &value), key);
  PMIX_VALUE_RELEASE(value);
}

static void fence(void) {
  pmix_info_t collect;
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
  must(PMIx_Fence(&everyone, 1, &collect, 1), "PMIx_Fence");
}

static void get_one_of_each(void) {
  get(&everyone, PMIX_JOB_SIZE);
  get(&everyone, is_plain ? PMIX_MAX_PROCS : PMIX_LOCAL_PEERS);
  get(&me, PMIX_LOCAL_RANK);
  get(&peer, is_plain ? PMIX_LOCAL_RANK : PMIX_HOSTNAME);
  get(&peer, "endpoint");
}

/* A write to no file: it fails, and the trace has its text. */
static void mark(const char *text) {
  if (write(-1, text, strlen(text)) >= 0) abort();
}

int main(int argc, char **argv) {
  long count = argc > 1 ? atol(argv[1]) : 10000;
  pmix_value_t *value, endpoint;
  is_plain = argc > 2;
  must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
  PMIX_PROC_LOAD(&everyone, me.nspace, PMIX_RANK_WILDCARD);
  must(PMIx_Get(&everyone, PMIX_JOB_SIZE, NULL, 0, &value), PMIX_JOB_SIZE);
  PMIX_PROC_LOAD(&peer, me.nspace, (me.rank + 1) % value->data.uint32);
  PMIX_VALUE_RELEASE(value);
  PMIX_VALUE_LOAD(&endpoint, "tcp://127.0.0.1:4711", PMIX_STRING);
  must(PMIx_Put(PMIX_GLOBAL, "endpoint", &endpoint), "PMIx_Put");
  PMIX_VALUE_DESTRUCT(&endpoint);
  must(PMIx_Commit(), "PMIx_Commit");
  fence();

  get_one_of_each();
  mark("gets begin");
  for (long done = 0; done < count; done += 5) get_one_of_each();
  mark("gets end");

  fence();
  must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
  return 0;
}
