/*
 * Two processes, each with the device: one WRITEs to memory of the other that is registered without the
 * right. It prints the status and the vendor_err of its completion. With an argument it uses another
 * R_Key.
 */
#include "verbs.h"

#include <sys/socket.h>

struct address {
	uint32_t qpn, rkey;
	uint64_t memory;
	union ibv_gid gid;
};

static void exchange(int s, struct address *mine, struct address *theirs)
{
	CHECK(write(s, mine, sizeof(*mine)) == sizeof(*mine));
	CHECK(read(s, theirs, sizeof(*theirs)) == sizeof(*theirs));
}

int main(int argc, char **argv)
{
	struct address mine, theirs;
	struct ibv_qp number;
	struct side peer = { &number, NULL };
	struct ibv_wc wc;
	struct device d;
	struct ibv_sge sge;
	double end;
	int s[2], requester, n;
	char c = 0;

	(void)argv;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
	requester = fork() != 0;
	CHECK(close(s[!requester]) == 0);
	CHECK((d.context = open_device()) && (d.pd = ibv_alloc_pd(d.context)) && (d.memory = calloc(1, SIZE)));
	CHECK(d.mr = ibv_reg_mr(d.pd, d.memory, SIZE, IBV_ACCESS_LOCAL_WRITE));
	make_side(&d, &d.a, DEPTH);
	mine = (struct address){ .qpn = d.a.qp->qp_num, .rkey = d.mr->rkey, .memory = (uintptr_t)d.memory };
	CHECK(ibv_query_gid(d.context, 1, 0, &mine.gid) == 0);
	exchange(s[requester], &mine, &theirs);
	number.qp_num = theirs.qpn;
	peer_gid = &theirs.gid;
	ack_timeout = 19; /* processes of these tests may take all processors */
	connect_side(&d, &d.a, &peer);
	exchange(s[requester], &mine, &theirs); /* now both are connected */
	if (!requester)
		return read(s[0], &c, 1) != 0;
	sge = (struct ibv_sge){ (uintptr_t)d.memory, 8, d.mr->lkey };
	CHECK(post(&d.a, IBV_WR_RDMA_WRITE, sge, theirs.memory, theirs.rkey ^ (argc > 1 ? 0x5a5a : 0)) == 0);
	for (end = now() + 30; (n = ibv_poll_cq(d.a.cq, 1, &wc)) == 0;)
		CHECK(now() < end);
	CHECK(n == 1);
	printf("status %d vendor_err %u\n", wc.status, wc.vendor_err);
	fflush(stdout);
	CHECK(close(s[1]) == 0 && wait(&n) > 0 && n == 0);
	return 0;
}
