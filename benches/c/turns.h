/* Turns of two sets of processes that measure one thing, so that a machine that becomes faster or slower does
 * so for both. One process of each set holds the pipes to the other; the rest of its set waits for it in what is measured. */
#ifndef TURNS_H
#define TURNS_H
#include "bench.h"
#include <errno.h>
#include <fcntl.h>

/* The turn comes as a byte on TURN, and goes on PASS. A program that has neither is alone. */
enum { TURN = 196, PASS = 197 };

/* Each turn warms up first, because the other set has had the caches meanwhile. */
enum { WARM_UP = 2 };

static inline bool takes_turns(void) { return fcntl(TURN, F_GETFD) >= 0; }

/* Also returns when the other set is gone. */
static inline void wait_for_turn(void) {
  char nothing;
  while (read(TURN, &nothing, 1) < 0 && errno == EINTR) continue;
}

static inline void pass_turn(void) {
  if (write(PASS, "", 1) != 1) die("nobody takes the turn");
}
#endif
