/* Joins a job and leaves it: what PMIx_Init, PMIx_Finalize and the memory behind them cost.
 *   init [get]     get: looks up eight keys on the way */
#include "client.h"

/* First questions of a library of MPI, asked once: nothing of it is in the processor's caches, and perhaps not mapped yet. */
static void get_own_keys(void) {
  const char *own[] = {PMIX_LOCAL_RANK, PMIX_NODE_RANK, PMIX_HOSTNAME, PMIX_LOCALITY_STRING, PMIX_APPNUM};
  const char *of_job[] = {PMIX_LOCAL_PEERS, PMIX_LOCAL_SIZE, PMIX_UNIV_SIZE};
  pmix_value_t *values[8];
  int n = 0;
  long faults = page_faults();
  double start = now_us();
  for (size_t i = 0; i < sizeof own / sizeof *own; i++, n++) must(PMIx_Get(&me, own[i], NULL, 0, &values[n]), own[i]);
  for (size_t i = 0; i < sizeof of_job / sizeof *of_job; i++, n++)
    must(PMIx_Get(&everyone, of_job[i], NULL, 0, &values[n]), of_job[i]);
  double took = now_us() - start;
  sample("first gets", took, page_faults() - faults);
  for (int i = 0; i < n; i++) release(values[i]);
}

int main(int argc, char **argv) {
  double before = private_bytes();
  join_job();
  if (argc > 1 && strcmp(argv[1], "get") == 0) get_own_keys();
  sample("client private", private_bytes() - before, 0);
  fence(false);
  double start = now_us();
  must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
  sample("finalize", now_us() - start, 0);
  flush_samples();
  return 0;
}
