/* Fences of all clients of a job, one behind the other: without data, and then with 64 new bytes of each client, put and
 * committed in that time.
 *   fences [COUNT [TURNS]]     COUNT in each turn; those without data take turns with a neighbour, if there is one  */
#include "client.h"
#include "turns.h"

static void without_data(int count, int turns) {
  bool leads = me.rank == 0 && takes_turns();
  for (int turn = 0; turn < turns; turn++) {
    struct row without = row("fence", count);
    if (leads) {
      pass_turn();
      wait_for_turn();
    }
    for (int i = -WARM_UP; i < count; i++) {
      double start = now_us();
      fence(false);
      double took = now_us() - start;
      if (i >= 0) keep(&without, took);
    }
    write_down(&without);
  }
}

static void with_data(int count) {
  struct row with = row("fence with data", count);
  for (int i = -WARM_UP; i < count; i++) {
    /* A library may commit at once or leave that to the fence. */
    double start = now_us();
    put_bytes("endpoint", 64);
    must(PMIx_Commit(), "PMIx_Commit");
    fence(true);
    double took = now_us() - start;
    if (i >= 0) keep(&with, took);
  }
  write_down(&with);
}

int main(int argc, char **argv) {
  int count = argc > 1 ? atoi(argv[1]) : 100, turns = argc > 2 ? atoi(argv[2]) : 1;
  join_job();
  without_data(count, turns);
  with_data(count * turns);
  leave_job();
  return 0;
}
