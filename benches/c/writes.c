/* PMIx_Put and PMIx_Commit of rank 0, with the other clients of the job idle.
 *   writes [COUNT]  */
#include "client.h"

int main(int argc, char **argv) {
  int count = argc > 1 ? atoi(argv[1]) : 500;
  join_job();
  fence(false);
  for (int i = -10; me.rank == 0 && i < count; i++) {
    pmix_value_t value;
    char bytes[64];
    for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (char)random_below(256);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = bytes;
    value.data.bo.size = sizeof bytes;
    long faults = page_faults();
    double start = now_us();
    must(PMIx_Put(PMIX_GLOBAL, "endpoint", &value), "PMIx_Put");
    double put = now_us();
    must(PMIx_Commit(), "PMIx_Commit");
    double commit = now_us();
    if (i < 0) continue;
    sample("put", put - start, 0);
    sample("commit", commit - put, page_faults() - faults);
  }
  fence(true);
  leave_job();
  return 0;
}
