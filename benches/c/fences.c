/* Fences of all clients of a job, one behind the other: without data, and with 64 new bytes of each client.
 *   fences [COUNT]  */
#include "client.h"

int main(int argc, char **argv) {
  int count = argc > 1 ? atoi(argv[1]) : 100;
  join_job();
  for (int i = -2; i < count; i++) { /* the first two warm up */
    double start = now_us();
    fence(false);
    if (i >= 0) sample("fence", now_us() - start, 0);
  }
  for (int i = -2; i < count; i++) {
    put_bytes("endpoint", 64);
    must(PMIx_Commit(), "PMIx_Commit");
    double start = now_us();
    fence(true);
    if (i >= 0) sample("fence with data", now_us() - start, 0);
  }
  leave_job();
  return 0;
}
