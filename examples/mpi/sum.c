/* One MPI_COMM_WORLD over several clusters: every rank gives its number, all get the sum.

   Nothing in it is Koala's. Compile it at each site with the MPICH there: mpicc -o sum sum.c
   Exit status 0: the sum is right at every rank. 1: it is not. With an argument N, rank N fails. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, size, sum = 0, length = 0;
    char host[MPI_MAX_PROCESSOR_NAME];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on %s: the sum is %d\n", rank, size, host, sum);
    MPI_Finalize();
    if (argc > 1 && rank == atoi(argv[1]))
        return 9;
    return sum == size * (size - 1) / 2 ? 0 : 1;
}
