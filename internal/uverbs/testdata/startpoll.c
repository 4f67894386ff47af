/*
 * Polls an extended completion queue: a queue pair sends to itself, and the
 * program waits by ibv_start_poll alone. It prints whose function that is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <infiniband/verbs.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "line %d: %s: %s\n", __LINE__, #x, strerror(errno)); exit(1); } } while (0)

static struct ibv_context *context;
static char memory[64] __attribute__((aligned(64)));

static void connect_to_itself(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	union ibv_gid gid;

	CHECK(ibv_query_gid(context, 1, 0, &gid) == 0);
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 1 } } };
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

/* completion waits for one completion, for a minute at most. */
static void completion(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attributes = { 0 };
	time_t end = time(NULL) + 60;
	int err;

	while ((err = ibv_start_poll(cq, &attributes)) == ENOENT)
		CHECK(time(NULL) < end);
	CHECK(err == 0 && cq->status == IBV_WC_SUCCESS);
	ibv_end_poll(cq);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_cq_init_attr_ex wanted = { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN };
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_sge sge;
	Dl_info owner;
	int i;

	CHECK(list && list[0] && (context = ibv_open_device(list[0])));
	CHECK((cq = ibv_create_cq_ex(context, &wanted)));
	CHECK(dladdr((void *)cq->start_poll, &owner));
	printf("ibv_start_poll is %s\n", strrchr(owner.dli_fname, '/') + 1);
	CHECK((pd = ibv_alloc_pd(context)));
	CHECK((mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE)));
	CHECK((qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){ .send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq), .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } })));
	connect_to_itself(qp);
	for (i = 0; i < 1000; i++) {
		struct ibv_recv_wr receive = { .sg_list = &sge, .num_sge = 1 }, *bad_receive;
		struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad_send;

		sge = (struct ibv_sge){ .addr = (uintptr_t)memory + 32, .length = 32, .lkey = mr->lkey };
		CHECK(ibv_post_recv(qp, &receive, &bad_receive) == 0);
		sge.addr = (uintptr_t)memory;
		CHECK(ibv_post_send(qp, &send, &bad_send) == 0);
		completion(cq);
		completion(cq);
	}
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0 && ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0);
	CHECK(ibv_close_device(context) == 0);
	printf("all completed\n");
	return 0;
}
