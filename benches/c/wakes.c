/* The cost of telling N processes without PMIx: a write to the socket of each, which sleeps in poll, until the last has
 * read it.
 *   wakes PROCESSES COUNT  */
#include "bench.h"
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* Longer than the message is short: as much as an event takes on the wire. */
enum { BYTES = 104 };

static void listen_to(int fd, volatile double *heard) {
  char bytes[BYTES];
  for (;;) {
    struct pollfd polled = {fd, POLLIN, 0};
    poll(&polled, 1, -1);
    if (recv(fd, bytes, sizeof bytes, 0) <= 0) _exit(0);
    *heard = now_us();
  }
}

static double last_heard(volatile double *heard, int n, double since) {
  double last = 0;
  for (int i = 0; i < n; i++) {
    if (heard[i] < since) return 0;
    last = heard[i] > last ? heard[i] : last;
  }
  return last;
}

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 32, count = argc > 2 ? atoi(argv[2]) : 100;
  int *sockets = calloc(n, sizeof *sockets);
  char message[BYTES] = {0};
  volatile double *heard = mmap(NULL, n * sizeof *heard, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (heard == MAP_FAILED) die("no shared memory");
  for (int i = 0; i < n; i++) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) die("no sockets");
    pid_t pid = fork();
    if (pid < 0) die("no processes");
    if (pid == 0) {
      for (int other = 0; other < i; other++) close(sockets[other]);
      close(pair[0]);
      listen_to(pair[1], &heard[i]);
    }
    close(pair[1]);
    sockets[i] = pair[0];
  }
  for (int i = 0; i < count; i++) {
    usleep(3000);
    double start = now_us(), last;
    for (int to = 0; to < n; to++)
      if (send(sockets[to], message, sizeof message, 0) != sizeof message) die("a process is gone");
    while ((last = last_heard(heard, n, start)) == 0) usleep(500);
    sample("wakes", last - start, 0);
  }
  for (int i = 0; i < n; i++) close(sockets[i]);
  while (wait(NULL) > 0) continue;
  flush_samples();
  return 0;
}
