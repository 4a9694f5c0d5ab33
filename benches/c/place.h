/* Placement of the processes of a fence. A server and its only client stay for a whole run where the kernel has put them first, on one
 * core or on two, and so a fence takes 10 us or 46. Two sets of processes can be compared only when both lie alike: a
 * server on the last core, and its clients on all cores in turn. */
#ifndef PLACE_H
#define PLACE_H
#include "bench.h"
#include <sched.h>

static inline void settle(long place) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(place % cores, &core);
  if (sched_setaffinity(0, sizeof core, &core) != 0) fprintf(stderr, "core %ld is not to be had\n", place % cores);
}

static inline void settle_client(int client) { settle(client); }
static inline void settle_server(void) { settle(sysconf(_SC_NPROCESSORS_ONLN) - 1); }
#endif
