/* What the programs of these tests share: a device, and two connected queue pairs of it. */
#ifndef VERBS_H
#define VERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 64
#define SIZE (64 << 10)

__attribute__((unused)) static void die(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fprintf(stderr, " (errno %d)\n", errno);
	_exit(1);
}

#define CHECK(x) \
	do { \
		if (!(x)) \
			die("line %d: %s", __LINE__, #x); \
	} while (0)

struct side {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
};

struct device {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr; /* of memory */
	char *memory;
	struct side a, b;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* in_call reports whether a thread waits in a system call. */
__attribute__((unused)) static int in_call(int tid, long wanted)
{
	char path[100];
	long number = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	if (!(f = fopen(path, "r")))
		return 0;
	if (fscanf(f, "%ld", &number) != 1)
		number = -1;
	fclose(f);
	return number == wanted;
}

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c;

	CHECK(list && list[0]);
	c = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	return c;
}

__attribute__((unused)) static void make_side(struct device *d, struct side *s, int depth)
{
	struct ibv_qp_init_attr i = { .qp_type = IBV_QPT_RC, .cap = { depth, depth, 1, 1, 64 } };

	CHECK(s->cq = ibv_create_cq(d->context, 2 * depth, NULL, NULL, 0));
	i.send_cq = i.recv_cq = s->cq;
	CHECK(s->qp = ibv_create_qp(d->pd, &i));
}

/* peer_gid is the GID of the device of the peers, that of the program's own device without one. */
__attribute__((unused)) static union ibv_gid *peer_gid;

/* ack_timeout is the exponent of the time until a request is repeated. */
__attribute__((unused)) static int ack_timeout = 14;

__attribute__((unused)) static void connect_side(struct device *d, struct side *s, struct side *to)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_port_attr port;

	CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_4096;
	a.dest_qp_num = to->qp->qp_num;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 1;
	a.ah_attr.port_num = 1;
	a.ah_attr.is_global = 1;
	CHECK(ibv_query_port(d->context, 1, &port) == 0);
	a.ah_attr.dlid = port.lid; /* peers are on the same port; 0 on Ethernet */
	a.ah_attr.grh.hop_limit = 1;
	if (peer_gid)
		a.ah_attr.grh.dgid = *peer_gid;
	else
		CHECK(ibv_query_gid(d->context, 1, 0, &a.ah_attr.grh.dgid) == 0);
	CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	a.qp_state = IBV_QPS_RTS;
	a.timeout = ack_timeout;
	a.retry_cnt = 7;
	a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			    IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

__attribute__((unused)) static void connect_sides(struct device *d)
{
	make_side(d, &d->a, DEPTH);
	make_side(d, &d->b, DEPTH);
	connect_side(d, &d->a, &d->b);
	connect_side(d, &d->b, &d->a);
}

/* reconnect makes queue pairs in error work again. */
__attribute__((unused)) static void reconnect(struct device *d)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_wc wc;

	CHECK(ibv_modify_qp(d->a.qp, &reset, IBV_QP_STATE) == 0 && ibv_modify_qp(d->b.qp, &reset, IBV_QP_STATE) == 0);
	while (ibv_poll_cq(d->a.cq, 1, &wc) > 0 || ibv_poll_cq(d->b.cq, 1, &wc) > 0)
		;
	connect_side(d, &d->a, &d->b);
	connect_side(d, &d->b, &d->a);
}

static const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/* device_begin opens the device. The memory has 2 * SIZE bytes. */
__attribute__((unused)) static void device_begin(struct device *d)
{
	CHECK(d->context = open_device());
	CHECK(d->pd = ibv_alloc_pd(d->context));
	d->memory = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(d->memory != MAP_FAILED);
	CHECK(d->mr = ibv_reg_mr(d->pd, d->memory, 2 * SIZE, rights));
	connect_sides(d);
}

static int post(struct side *s, enum ibv_wr_opcode op, struct ibv_sge sge, uint64_t addr, uint32_t rkey)
{
	struct ibv_send_wr w = { .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED }, *bad;

	w.wr.rdma.remote_addr = addr;
	w.wr.rdma.rkey = rkey;
	return ibv_post_send(s->qp, &w, &bad);
}

/* completion waits for a completion, and returns its status. */
__attribute__((unused)) static int completion(struct side *s)
{
	double end = now() + 30;
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(s->cq, 1, &wc)) == 0)
		if (now() > end)
			die("no completion in 30 seconds");
	CHECK(n == 1);
	return wc.status;
}

/* write_once writes the first half of the memory to the second, and returns the status. */
static int write_once(struct device *d, uint32_t n)
{
	struct ibv_sge sge = { (uintptr_t)d->memory, n, d->mr->lkey };

	CHECK(post(&d->a, IBV_WR_RDMA_WRITE, sge, (uintptr_t)d->memory + SIZE, d->mr->rkey) == 0);
	return completion(&d->a);
}

/* traffic checks that the device carries data. */
__attribute__((unused)) static void traffic(struct device *d)
{
	static unsigned char value;

	memset(d->memory, ++value, SIZE);
	CHECK(write_once(d, SIZE) == IBV_WC_SUCCESS);
	CHECK(memcmp(d->memory, d->memory + SIZE, SIZE) == 0);
}

#endif
