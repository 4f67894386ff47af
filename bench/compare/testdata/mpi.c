/*
 * Measures one operation of MPI between two or more ranks:
 *
 *	mpi ping-pong|all-reduce|alltoall BYTES SECONDS
 *
 * BYTES is the size of a message, for all-reduce that of each rank's vector, for
 * alltoall what each rank sends to each other. Rank 0 prints the number of
 * operations and the median of their times. A ping-pong counts half a round trip.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, bytes;
static char *out, *in;

static void ping_pong(void)
{
	MPI_Status status;

	if (rank == 0) {
		MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &status);
	} else if (rank == 1) {
		MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &status);
		MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
	}
}

static void all_reduce(void)
{
	MPI_Allreduce(out, in, bytes / (int)sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void all_to_all(void)
{
	MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	void (*operation)(void) = NULL;
	double began, *took;
	long n, i;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc == 4) {
		if (!strcmp(argv[1], "ping-pong"))
			operation = ping_pong;
		else if (!strcmp(argv[1], "all-reduce"))
			operation = all_reduce;
		else if (!strcmp(argv[1], "alltoall"))
			operation = all_to_all;
	}
	if (!operation || ranks < 2) {
		fprintf(stderr, "usage: mpi ping-pong|all-reduce|alltoall BYTES SECONDS, on two ranks or more\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	bytes = atoi(argv[2]);
	out = calloc((size_t)ranks, (size_t)bytes);
	in = calloc((size_t)ranks, (size_t)bytes);

	/* The first operations set up connections; the next ones tell how many fit in the time. */
	for (i = 0; i < 20; i++)
		operation();
	MPI_Barrier(MPI_COMM_WORLD);
	began = MPI_Wtime();
	for (i = 0; i < 20; i++)
		operation();
	n = (long)(atof(argv[3]) / ((MPI_Wtime() - began) / 20));
	if (n < 20)
		n = 20;
	if (n > 1000000)
		n = 1000000;
	MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	took = malloc((size_t)n * sizeof(*took));
	MPI_Barrier(MPI_COMM_WORLD);
	for (i = 0; i < n; i++) {
		began = MPI_Wtime();
		operation();
		took[i] = MPI_Wtime() - began;
	}
	if (rank == 0) {
		qsort(took, (size_t)n, sizeof(*took), compare);
		printf("operations %ld median_us %.3f\n", n, took[n / 2] * 1e6 / (operation == ping_pong ? 2 : 1));
	}
	MPI_Finalize();
	return 0;
}
