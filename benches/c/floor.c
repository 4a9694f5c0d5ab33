/* The least that a fence among processes of one node can cost: each client writes a byte on a Unix socket, the server
 * collects them with epoll, and wakes all with one futex. No PMIx.
 *   floor [CLIENTS [COUNT [TURNS]]]     COUNT in each turn  */
#include "place.h"
#include "turns.h"
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Number of fences that are over: shared, and the word that clients sleep on. */
static _Atomic uint32_t *over;

static double meet(int server) {
  uint32_t now = atomic_load(over);
  double start = now_us();
  if (write(server, "", 1) != 1) die("floor: the server is gone");
  while (atomic_load(over) == now) syscall(SYS_futex, over, FUTEX_WAIT, now, NULL, NULL, 0);
  return now_us() - start;
}

static void client(int server, int count, int turns, bool leads) {
  for (int turn = 0; turn < turns; turn++) {
    struct row floor = row("floor", count);
    if (leads) wait_for_turn();
    for (int i = -WARM_UP; i < count; i++) {
      double took = meet(server);
      if (i >= 0) keep(&floor, took);
    }
    write_down(&floor);
    if (leads) pass_turn();
  }
  flush_samples();
}

static void serve(int events, int clients, int count) {
  struct epoll_event ready[64];
  char byte;
  for (int i = 0; i < count; i++) {
    for (int arrived = 0; arrived < clients;) {
      int n = epoll_wait(events, ready, 64, -1);
      for (int k = 0; k < n; k++, arrived++)
        if (read(ready[k].data.fd, &byte, 1) != 1) die("floor: a client is gone");
    }
    atomic_fetch_add(over, 1);
    syscall(SYS_futex, over, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
  }
}

int main(int argc, char **argv) {
  int clients = argc > 1 ? atoi(argv[1]) : 2, count = argc > 2 ? atoi(argv[2]) : 100;
  int turns = argc > 3 ? atoi(argv[3]) : 1, failed = 0;
  over = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int events = epoll_create1(EPOLL_CLOEXEC);
  if (over == MAP_FAILED || events < 0) die("floor: %s", strerror(errno));
  for (int i = 0; i < clients; i++) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) die("floor: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0) die("floor: %s", strerror(errno));
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      settle_client(i);
      client(ends[1], count, turns, i == 0 && takes_turns());
      return 0;
    }
    close(ends[1]);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = ends[0]};
    epoll_ctl(events, EPOLL_CTL_ADD, ends[0], &event);
  }
  settle_server();
  serve(events, clients, turns * (WARM_UP + count));
  for (int status; wait(&status) > 0;) failed |= status;
  return failed != 0;
}
