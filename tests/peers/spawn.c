/* Starts more processes of itself, merges with them into one communicator and adds up all ranks.
 *   spawn [CHILDREN]     two by default */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 16 };

/* Sum that all of the merged communicator find when they add up their ranks. */
static int wrong_sum(MPI_Comm other_side, int is_child, int expected_size) {
  MPI_Comm all;
  int rank, size, sum;
  MPI_Intercomm_merge(other_side, is_child, &all);
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
  MPI_Comm_free(&all);
  return sum != size * (size - 1) / 2 || (expected_size && size != expected_size);
}

int main(int argc, char **argv) {
  int rank, size, wrong, all_wrong = 0;
  MPI_Comm parent, children;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    wrong = wrong_sum(parent, 1, 0);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return wrong;
  }
  int count = argc > 1 ? atoi(argv[1]) : 2, failures[MOST] = {0};
  if (count < 1 || count > MOST) return 2;
  MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, failures);
  wrong = wrong_sum(children, 0, size + count);
  for (int i = 0; rank == 0 && i < count; i++) wrong += failures[i] != 0;
  MPI_Comm_disconnect(&children);
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("spawn of %d by %d: %s\n", count, size, all_wrong ? "WRONG" : "right");
  MPI_Finalize();
  return all_wrong != 0;
}
