/* The least a fence of N processes on one node can cost, without any library: each writes one small message to a socket of its own,
 * one process collects them with epoll and releases all with one futex word in shared memory.
 *
 *   fence_floor N [ROUNDS]    prints the median and the 99th percentile of process 0's rounds in microseconds
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <limits.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 64 };

static void need(int ok, const char *what) {
  if (!ok) {
    perror(what);
    exit(1);
  }
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void client(int rank, int rounds, int fd, _Atomic unsigned *word) {
  char message[MESSAGE] = "fence";
  double *took = malloc(rounds * sizeof *took);
  need(took != NULL, "malloc");
  for (int i = 0; i < rounds; i++) {
    double start = now();
    unsigned seen = atomic_load(word);
    need(send(fd, message, sizeof message, MSG_NOSIGNAL) == sizeof message, "send");
    while (atomic_load(word) == seen)
      syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
    took[i] = now() - start;
  }
  if (rank == 0) {
    qsort(took, rounds, sizeof *took, by_size);
    printf("%.1f %.1f\n", took[rounds / 2], took[rounds * 99L / 100]);
  }
}

static void server(int n, int rounds, const int *fds, _Atomic unsigned *word) {
  int poll = epoll_create1(0);
  need(poll >= 0, "epoll_create1");
  for (int i = 0; i < n; i++) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fds[i]};
    need(epoll_ctl(poll, EPOLL_CTL_ADD, fds[i], &event) == 0, "epoll_ctl");
  }
  struct epoll_event events[256];
  long arrived = 0;
  for (int round = 0; round < rounds;) {
    int ready = epoll_wait(poll, events, 256, -1);
    need(ready >= 0, "epoll_wait");
    for (int i = 0; i < ready; i++) {
      char message[4096];
      need(read(events[i].data.fd, message, sizeof message) == MESSAGE, "read");
      arrived++;
    }
    if (arrived == n) {
      arrived = 0;
      round++;
      atomic_fetch_add(word, 1);
      syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
  }
}

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 2000;
  need(n > 0 && n <= 4096 && rounds > 0, "usage: fence_floor N [ROUNDS]");
  _Atomic unsigned *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(word != MAP_FAILED, "mmap");
  int *fds = malloc(n * sizeof *fds);
  need(fds != NULL, "malloc");
  for (int rank = 0; rank < n; rank++) {
    int ends[2];
    need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    pid_t pid = fork();
    need(pid >= 0, "fork");
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ends[0]);
      client(rank, rounds, ends[1], word);
      return 0;
    }
    close(ends[1]);
    fds[rank] = ends[0];
  }
  server(n, rounds, fds, word);
  int status = 0, failed = 0;
  while (wait(&status) > 0)
    failed |= status;
  return failed != 0;
}
