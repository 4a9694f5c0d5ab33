/* The last rank opens a port and publishes it; rank 0 looks it up and connects to it; a number goes there and back. A name
 * that was taken back is not found any more.  */
#include <mpi.h>
#include <stdio.h>

static const char service[] = "instanton-names";

static int serve(void) {
  char port[MPI_MAX_PORT_NAME], again[MPI_MAX_PORT_NAME];
  int number = 0;
  MPI_Comm peer;
  MPI_Open_port(MPI_INFO_NULL, port);
  MPI_Publish_name(service, MPI_INFO_NULL, port);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &peer);
  MPI_Recv(&number, 1, MPI_INT, 0, 1, peer, MPI_STATUS_IGNORE);
  number++;
  MPI_Send(&number, 1, MPI_INT, 0, 2, peer);
  MPI_Comm_disconnect(&peer);
  MPI_Unpublish_name(service, MPI_INFO_NULL, port);
  MPI_Close_port(port);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return MPI_Lookup_name(service, MPI_INFO_NULL, again) == MPI_SUCCESS;
}

static int call(void) {
  char port[MPI_MAX_PORT_NAME];
  int number = 41;
  MPI_Comm peer;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Lookup_name(service, MPI_INFO_NULL, port);
  MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &peer);
  MPI_Send(&number, 1, MPI_INT, 0, 1, peer);
  MPI_Recv(&number, 1, MPI_INT, 0, 2, peer, MPI_STATUS_IGNORE);
  MPI_Comm_disconnect(&peer);
  return number != 42;
}

int main(int argc, char **argv) {
  int rank, size, wrong = 0, all_wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == size - 1) wrong = serve();
  else if (rank == 0) wrong = call();
  else MPI_Barrier(MPI_COMM_WORLD);
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("names of %d: %s\n", size, all_wrong ? "WRONG" : "right");
  MPI_Finalize();
  return all_wrong != 0;
}
