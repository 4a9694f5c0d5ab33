/* A token goes round the ring ten times; every rank it passes adds one.  */
#include <mpi.h>
#include <stdio.h>

enum { ROUNDS = 10 };

int main(int argc, char **argv) {
  int rank, size, token = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (int round = 0; round < ROUNDS; round++) {
    if (rank != 0) MPI_Recv(&token, 1, MPI_INT, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token++;
    if (size > 1) MPI_Send(&token, 1, MPI_INT, next, round, MPI_COMM_WORLD);
    if (rank == 0 && size > 1) MPI_Recv(&token, 1, MPI_INT, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  int wrong = rank == 0 && token != ROUNDS * size;
  if (rank == 0) printf("ring of %d: token %d, %s\n", size, token, wrong ? "WRONG" : "right");
  MPI_Finalize();
  return wrong;
}
