/*
 * A program that WRITEs and ends: crash END, where END is kill, segv, abort, _exit, exit, closed or idle.
 * idle WRITEs nothing before it is killed, and closed closes its device. It prints the number of the
 * queue pair that WRITEs.
 */
#include "verbs.h"

int main(int argc, char **argv)
{
	const char *end = argc > 1 ? argv[1] : "";
	struct ibv_sge sge;
	struct device d;
	struct ibv_wc wc;
	int i, n;

	device_begin(&d);
	printf("%06x\n", d.a.qp->qp_num);
	fflush(stdout);
	sge = (struct ibv_sge){ (uintptr_t)d.memory, 1000, d.mr->lkey };
	for (i = 0; i < 3 && strcmp(end, "idle") != 0; i++) {
		CHECK(post(&d.a, i == 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, sge, (uintptr_t)d.memory + SIZE, d.mr->rkey) == 0);
		while ((n = ibv_poll_cq(d.a.cq, 1, &wc)) == 0)
			;
		CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
	}
	if (!strcmp(end, "segv"))
		*(volatile int *)(uintptr_t)(argc - 2) = 1;
	if (!strcmp(end, "abort"))
		abort();
	if (!strcmp(end, "_exit"))
		_exit(7);
	if (!strcmp(end, "closed")) {
		CHECK(ibv_destroy_qp(d.a.qp) == 0 && ibv_destroy_qp(d.b.qp) == 0 && ibv_destroy_cq(d.a.cq) == 0 && ibv_destroy_cq(d.b.cq) == 0);
		CHECK(ibv_dereg_mr(d.mr) == 0 && ibv_dealloc_pd(d.pd) == 0 && ibv_close_device(d.context) == 0);
	}
	if (!strcmp(end, "kill") || !strcmp(end, "idle"))
		raise(SIGKILL);
	return 9;
}
