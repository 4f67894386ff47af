/*
 * An MPI program that checks what it receives: messages between all pairs of
 * ranks, eager and rendezvous, collective operations and one-sided access.
 * Every rank ends with status 1 at the first wrong byte. At the end it tells how
 * many bytes the ranks have got from each other. An argument is the number of
 * rounds.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static long got; /* bytes that other ranks have sent to this one */

static void wrong(const char *what, size_t n)
{
	fprintf(stderr, "rank %d: %s of %zu bytes brought wrong data\n", rank, what, n);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/* fill writes the bytes that one rank sends to another. */
static void fill(unsigned char *b, size_t n, int from, int to)
{
	size_t i;

	for (i = 0; i < n; i++)
		b[i] = (unsigned char)(i * 7 + (size_t)from * 31 + (size_t)to * 101 + n);
}

static void check(const char *what, const unsigned char *b, size_t n, int from, int to)
{
	unsigned char *want = malloc(n + 1);

	fill(want, n, from, to);
	if (memcmp(b, want, n))
		wrong(what, n);
	free(want);
}

static void pairs(size_t n)
{
	unsigned char *out = malloc(n + 1), *in = malloc(n + 1);
	int step, to, from;

	for (step = 1; step < ranks; step++) {
		to = (rank + step) % ranks;
		from = (rank - step + ranks) % ranks;
		fill(out, n, rank, to);
		MPI_Sendrecv(out, (int)n, MPI_BYTE, to, step, in, (int)n, MPI_BYTE, from, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		check("a message", in, n, from, rank);
		got += (long)n;
	}
	free(out);
	free(in);
}

static void collectives(size_t n)
{
	unsigned char *out = malloc(n * (size_t)ranks + 1), *in = malloc(n * (size_t)ranks + 1);
	long mine = rank + (long)n, sum;
	int i;

	MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (sum != (long)ranks * (ranks - 1) / 2 + (long)n * ranks)
		wrong("a reduction", sizeof(sum));
	for (i = 0; i < ranks; i++)
		fill(out + n * (size_t)i, n, rank, i);
	MPI_Alltoall(out, (int)n, MPI_BYTE, in, (int)n, MPI_BYTE, MPI_COMM_WORLD);
	for (i = 0; i < ranks; i++)
		check("an exchange", in + n * (size_t)i, n, i, rank);
	got += (long)n * (ranks - 1);
	for (i = 0; i < ranks; i++) {
		if (rank == i)
			fill(in, n, i, i);
		MPI_Bcast(in, (int)n, MPI_BYTE, i, MPI_COMM_WORLD);
		check("a broadcast", in, n, i, i);
	}
	got += (long)n * (ranks - 1);
	free(out);
	free(in);
}

static void window(size_t n)
{
	unsigned char *mem, *out = malloc(n + 1), *in = malloc(n + 1);
	int next = (rank + 1) % ranks, last = (rank - 1 + ranks) % ranks;
	MPI_Win win;

	MPI_Win_allocate((MPI_Aint)n, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mem, &win);
	fill(out, n, rank, next);
	MPI_Win_fence(0, win);
	MPI_Put(out, (int)n, MPI_BYTE, next, 0, (int)n, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	check("a put", mem, n, last, rank);
	MPI_Get(in, (int)n, MPI_BYTE, next, 0, (int)n, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	check("a get", in, n, rank, next);
	got += 2 * (long)n;
	MPI_Win_free(&win);
	free(out);
	free(in);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 0, 1, 8, 1000, 8192, 65537, 1 << 20 };
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	long all;
	size_t i;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	while (rounds-- > 0) {
		for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			pairs(sizes[i]);
			collectives(sizes[i]);
			if (sizes[i])
				window(sizes[i]);
		}
	}
	MPI_Reduce(&got, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank)
		printf("%d ranks exchanged everything right: %ld bytes\n", ranks, all);
	MPI_Finalize();
	return 0;
}
