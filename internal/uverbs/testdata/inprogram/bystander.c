/*
 * A program that checks its device for as long as others come and go. It prints its queue pair and its
 * GID, reads those of its peer, and prints "connected". From the line "begin" to the line "end" it
 * writes to its peer and reads back. At the line "count", and at the end, it prints how often it has
 * done that. Then it waits until its input is closed.
 */
#include "verbs.h"

#include <poll.h>

static struct device d;
static uint64_t addr;
static uint32_t key;

static const char *line(void)
{
	static char b[100];

	CHECK(fgets(b, sizeof(b), stdin));
	return b;
}

/* The first half of the memory is this program's, the second its peer's. */
static void move(enum ibv_wr_opcode op)
{
	struct ibv_sge sge = { (uintptr_t)d.memory, SIZE, d.mr->lkey };
	int status;

	CHECK(post(&d.a, op, sge, addr + SIZE, key) == 0);
	if ((status = completion(&d.a)) != IBV_WC_SUCCESS)
		die("%s", ibv_wc_status_str(status));
}

int main(void)
{
	struct pollfd input = { 0, POLLIN, 0 };
	struct ibv_qp number;
	struct side peer = { &number, NULL };
	unsigned long long prefix, id;
	union ibv_gid gid;
	char want[SIZE];
	const char *said;
	long n;

	setvbuf(stdin, NULL, _IONBF, 0); /* so that poll sees all that is there */
	d.context = open_device();
	CHECK(d.context && (d.pd = ibv_alloc_pd(d.context)));
	CHECK((d.memory = calloc(2, SIZE)) && (d.mr = ibv_reg_mr(d.pd, d.memory, 2 * SIZE, rights)));
	make_side(&d, &d.a, DEPTH);
	CHECK(ibv_query_gid(d.context, 1, 0, &gid) == 0);
	printf("%u %u %lu %llx %llx\n", d.a.qp->qp_num, d.mr->rkey, (unsigned long)(uintptr_t)d.memory,
	       (unsigned long long)gid.global.subnet_prefix, (unsigned long long)gid.global.interface_id);
	fflush(stdout);
	CHECK(sscanf(line(), "%u %u %lu %llx %llx", &number.qp_num, &key, &addr, &prefix, &id) == 5);
	gid.global.subnet_prefix = prefix;
	gid.global.interface_id = id;
	peer_gid = &gid;
	ack_timeout = 19; /* processes of these tests may take all processors */
	connect_side(&d, &d.a, &peer);
	printf("connected\n");
	fflush(stdout);
	CHECK(strcmp(line(), "begin\n") == 0);
	for (n = 0;; n++) {
		if (poll(&input, 1, 1) != 0) {
			if (strcmp(said = line(), "count\n") != 0)
				break;
			printf("exchanged %ld\n", n);
			fflush(stdout);
		}
		memset(want, (int)n, SIZE);
		memcpy(d.memory, want, SIZE);
		move(IBV_WR_RDMA_WRITE);
		memset(d.memory, ~(int)n, SIZE);
		move(IBV_WR_RDMA_READ);
		if (memcmp(d.memory, want, SIZE) != 0)
			die("exchange %ld: other bytes came back", n);
	}
	CHECK(strcmp(said, "end\n") == 0);
	printf("exchanged %ld\n", n);
	fflush(stdout);
	CHECK(getchar() == EOF);
	CHECK(ibv_destroy_qp(d.a.qp) == 0 && ibv_destroy_cq(d.a.cq) == 0 && ibv_dereg_mr(d.mr) == 0);
	CHECK(ibv_dealloc_pd(d.pd) == 0 && ibv_close_device(d.context) == 0);
	return 0;
}
