/* The last rank does something that a launcher must notice; all others wait for it in a barrier, for ever.
 *   misbehave abort CODE     MPI_Abort(CODE)
 *   misbehave signal NUMBER  dies by that signal
 *   misbehave leave CODE     exits without MPI_Finalize
 *   misbehave early CODE     exits without ever calling MPI_Init
 *   misbehave hang 0         only waits, like the others  */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Number that the launcher of either kind of MPI says. */
static int number_from(const char *of_open_mpi, const char *of_mpich) {
  const char *text = getenv(of_open_mpi);
  if (!text) text = getenv(of_mpich);
  return text ? atoi(text) : -1;
}

int main(int argc, char **argv) {
  if (argc != 3) return 64;
  const char *how = argv[1];
  int number = atoi(argv[2]), rank, size;
  int is_last = number_from("OMPI_COMM_WORLD_RANK", "PMI_RANK") == number_from("OMPI_COMM_WORLD_SIZE", "PMI_SIZE") - 1;
  if (!strcmp(how, "early") && is_last) return number;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  printf("ready: rank %d of %d\n", rank, size);
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == size - 1) {
    if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, number);
    if (!strcmp(how, "signal")) kill(getpid(), number);
    if (!strcmp(how, "leave")) _exit(number);
    for (;;) pause();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return 0;
}
