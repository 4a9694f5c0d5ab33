/* Says who it is, in which communicator and of which application. Rank 0 adds how long the slowest
 * MPI_Init took and which PMIx library is loaded.  */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void print_library(void) {
  char line[4096];
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps)) {
    if (!strstr(line, "/libpmix.so")) continue;
    printf("PMIx library: %s", strchr(line, '/'));
    break;
  }
  if (maps) fclose(maps);
}

int main(int argc, char **argv) {
  double took = now_ms();
  MPI_Init(&argc, &argv);
  took = now_ms() - took;

  int rank, size, length, known, *application;
  char host[MPI_MAX_PROCESSOR_NAME];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_processor_name(host, &length);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &application, &known);
  printf("hello from rank %d of %d on %s, application %d\n", rank, size, host, known ? *application : -1);
  fflush(stdout);

  double slowest;
  MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("slowest MPI_Init of %d: %.1f ms\n", size, slowest);
    print_library();
  }
  MPI_Finalize();
  return 0;
}
