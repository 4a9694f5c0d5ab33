/* Every rank sends every other a block that only the two of them can have made, and checks what it gets.  */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 2048 };

static int element(int from, int to, int at) { return (from * 131 + to) * BLOCK + at; }

int main(int argc, char **argv) {
  int rank, size, wrong = 0, wrong_anywhere;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  int *sent = malloc(sizeof(int) * BLOCK * size), *got = malloc(sizeof(int) * BLOCK * size);
  for (int peer = 0; peer < size; peer++)
    for (int at = 0; at < BLOCK; at++) sent[peer * BLOCK + at] = element(rank, peer, at);
  MPI_Alltoall(sent, BLOCK, MPI_INT, got, BLOCK, MPI_INT, MPI_COMM_WORLD);
  for (int peer = 0; peer < size; peer++)
    for (int at = 0; at < BLOCK; at++) wrong += got[peer * BLOCK + at] != element(peer, rank, at);

  MPI_Allreduce(&wrong, &wrong_anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    printf("alltoall of %d: %d wrong elements, %s\n", size, wrong_anywhere, wrong_anywhere ? "WRONG" : "right");
  free(sent);
  free(got);
  MPI_Finalize();
  return wrong_anywhere != 0;
}
