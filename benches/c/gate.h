/* A gate: the host lets its clients go at one moment, and hears when each has come through PMIx_Init. */
#ifndef GATE_H
#define GATE_H
#include "bench.h"
#include <errno.h>
#include <fcntl.h>

/* A client says on REPORT that it is at the gate, waits for the end of GATE, and reports when it was done. */
enum { GATE = 198, REPORT = 199 };

static inline void report_to_host(double moment) {
  if (write(REPORT, &moment, sizeof moment) != sizeof moment) die("the host does not listen");
}

static inline bool has_host(void) { return fcntl(REPORT, F_GETFD) >= 0; }

static inline void wait_at_gate(void) {
  char nothing;
  if (!has_host()) return;
  report_to_host(0);
  while (read(GATE, &nothing, 1) < 0 && errno == EINTR) continue;
  close(GATE);
}

static inline void tell_host(double moment) {
  if (!has_host()) return;
  report_to_host(moment);
  close(REPORT);
}
#endif
