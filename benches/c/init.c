/* Joins a job and leaves it: what PMIx_Init, PMIx_Finalize and the memory behind them cost. */
#include "client.h"

int main(void) {
  double before = private_bytes();
  join_job();
  sample("client private", private_bytes() - before, 0);
  fence(false);
  double start = now_us();
  must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
  sample("finalize", now_us() - start, 0);
  flush_samples();
  return 0;
}
