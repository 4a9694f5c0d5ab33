"""Collectives over Python objects and over buffers; every rank checks what it got."""

import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
everyone = list(range(size))


def check(what, got, expected):
    if got != expected:
        raise SystemExit(f"rank {rank}: {what} gave {got!r}, expected {expected!r}")


check("bcast", comm.bcast({"from": 0} if rank == 0 else None), {"from": 0})
check("scatter", comm.scatter([r * r for r in everyone] if rank == 0 else None), rank * rank)
check("gather", comm.gather(rank + 100), [r + 100 for r in everyone] if rank == 0 else None)
check("allgather", comm.allgather(str(rank)), [str(r) for r in everyone])
check("alltoall", comm.alltoall([(rank, r) for r in everyone]), [(r, rank) for r in everyone])
check("allreduce", comm.allreduce(rank, MPI.SUM), sum(everyone))
check("scan", comm.scan(rank), sum(range(rank + 1)))

numbers = array.array("d", [rank + i for i in range(5000)])
sums = array.array("d", bytes(8 * len(numbers)))
comm.Allreduce([numbers, MPI.DOUBLE], [sums, MPI.DOUBLE])
check("Allreduce", sums.tolist(), [float(sum(everyone) + size * i) for i in range(5000)])

halves = comm.Split(rank % 2, rank)
check("Split", halves.allgather(rank), [r for r in everyone if r % 2 == rank % 2])
halves.Free()

comm.Barrier()
if rank == 0:
    version = ".".join(MPI.Get_library_version().split()[2].strip("v,").split(".")[:3])
    print(f"collectives of {size}: right, Open MPI {version}", flush=True)
