/*
 * A program with a connection of librdmacm over iWARP, both of whose ends it has, that makes one mistake:
 * mistakes_cm ADDRESS NAME. It is correct otherwise, and ends in order.
 */
#include "verbs.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

static struct rdma_cm_id *listener, *ids[2]; /* the client's and the server's */
static struct side sides[2];
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static char memory[SIZE];

static void prepare(int i)
{
	struct ibv_qp_init_attr q = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, 0 } };
	struct rdma_cm_id *id = ids[i];

	if (!pd)
		CHECK((pd = ibv_alloc_pd(id->verbs)) && (mr = ibv_reg_mr(pd, memory, SIZE, rights)));
	CHECK(sides[i].cq = ibv_create_cq(id->verbs, 2 * DEPTH, NULL, NULL, 0));
	q.send_cq = q.recv_cq = sides[i].cq;
	CHECK(rdma_create_qp(id, pd, &q) == 0);
	sides[i].qp = id->qp;
}

static void *serve(void *unused)
{
	struct rdma_conn_param p = { .responder_resources = 1, .initiator_depth = 1 };

	CHECK(rdma_get_request(listener, &ids[1]) == 0);
	prepare(1);
	CHECK(rdma_accept(ids[1], &p) == 0);
	return unused;
}

static void begin(const char *address)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct rdma_conn_param p = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7 };
	pthread_t server;

	CHECK(inet_pton(AF_INET, address, &a.sin_addr) == 1);
	CHECK(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP) == 0 && rdma_create_id(NULL, &ids[0], NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(listener, (struct sockaddr *)&a) == 0 && rdma_listen(listener, 1) == 0);
	a.sin_port = rdma_get_src_port(listener);
	CHECK(rdma_resolve_addr(ids[0], NULL, (struct sockaddr *)&a, 2000) == 0 && rdma_resolve_route(ids[0], 2000) == 0);
	prepare(0);
	CHECK(pthread_create(&server, NULL, serve, NULL) == 0);
	CHECK(rdma_connect(ids[0], &p) == 0);
	CHECK(pthread_join(server, NULL) == 0);
}

static void end(void)
{
	int i;

	for (i = 0; i < 2; i++)
		rdma_disconnect(ids[i]);
	for (i = 0; i < 2; i++) {
		rdma_destroy_qp(ids[i]);
		CHECK(ibv_destroy_cq(sides[i].cq) == 0);
	}
	CHECK(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0);
	for (i = 0; i < 2; i++)
		CHECK(rdma_destroy_id(ids[i]) == 0);
	CHECK(rdma_destroy_id(listener) == 0);
}

static void receive(struct ibv_mr *to)
{
	struct ibv_sge sge = { (uintptr_t)to->addr + 4096, 64, to->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(ibv_post_recv(sides[1].qp, &wr, &bad) == 0);
}

static int try_request(enum ibv_wr_opcode opcode, struct ibv_mr *local, int flags)
{
	struct ibv_sge sge = { (uintptr_t)local->addr, 64, local->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags }, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)memory + 8192;
	wr.wr.rdma.rkey = mr->rkey;
	return ibv_post_send(sides[0].qp, &wr, &bad);
}

static void request(enum ibv_wr_opcode opcode, struct ibv_mr *local, int flags)
{
	CHECK(try_request(opcode, local, flags) == 0);
}

static void send_one(void)
{
	request(IBV_WR_SEND, mr, IBV_SEND_SIGNALED);
	CHECK(completion(&sides[0]) == IBV_WC_SUCCESS && completion(&sides[1]) == IBV_WC_SUCCESS);
}

static void nothing(void)
{
	int i;

	for (i = 0; i < 4 * DEPTH; i++) {
		receive(mr);
		send_one();
		request(IBV_WR_RDMA_READ, mr, IBV_SEND_SIGNALED);
		CHECK(completion(&sides[0]) == IBV_WC_SUCCESS);
		memory[i] = memory[4096] = (char)i;
		request(IBV_WR_RDMA_WRITE, mr, IBV_SEND_SIGNALED);
		CHECK(completion(&sides[0]) == IBV_WC_SUCCESS);
	}
}

static void receive_changed(void)
{
	receive(mr);
	memory[4096 + 5]++;
	send_one();
}

static void use_after_dereg(void)
{
	struct ibv_mr *other = ibv_reg_mr(pd, memory, 4096, rights), copy;

	CHECK(other);
	copy = *other;
	CHECK(ibv_dereg_mr(other) == 0);
	request(IBV_WR_RDMA_WRITE, &copy, IBV_SEND_SIGNALED);
	CHECK(completion(&sides[0]) == IBV_WC_LOC_PROT_ERR);
}

static void other_pd(void)
{
	struct ibv_pd *other = ibv_alloc_pd(ids[0]->verbs);
	struct ibv_mr *of;

	CHECK(other && (of = ibv_reg_mr(other, memory, 4096, rights)));
	request(IBV_WR_RDMA_WRITE, of, IBV_SEND_SIGNALED);
	CHECK(completion(&sides[0]) == IBV_WC_LOC_PROT_ERR);
	CHECK(ibv_dereg_mr(of) == 0 && ibv_dealloc_pd(other) == 0);
}

static void dereg_in_flight(void)
{
	struct ibv_mr *other = ibv_reg_mr(pd, memory, SIZE, rights);

	CHECK(other);
	receive(other);
	CHECK(ibv_dereg_mr(other) == 0);
}

/* What librdmacm does before it disconnects. No receive is used after that, so this is no mistake. */
static void closing(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD };
	struct ibv_mr *other = ibv_reg_mr(pd, memory, SIZE, rights);

	CHECK(other);
	receive(other);
	CHECK(ibv_modify_qp(sides[1].qp, &a, IBV_QP_STATE) == 0);
	CHECK(ibv_dereg_mr(other) == 0);
}

static void sends_unsignaled(void)
{
	int i;

	for (i = 0; i < 4 * DEPTH; i++)
		while (try_request(IBV_WR_RDMA_WRITE, mr, 0) != 0) /* the queue is full */
			usleep(1000);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*make)(void);
	} mistakes[] = {
		{ "nothing", nothing },
		{ "closing", closing },
		{ "receive_changed", receive_changed },
		{ "use_after_dereg", use_after_dereg },
		{ "lkey_other_pd", other_pd },
		{ "dereg_in_flight", dereg_in_flight },
		{ "sends_unsignaled", sends_unsignaled },
	};
	size_t i;

	CHECK(argc == 3);
	begin(argv[1]);
	for (i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
		if (strcmp(argv[2], mistakes[i].name) == 0) {
			mistakes[i].make();
			end();
			return 0;
		}
	die("unknown mistake %s", argv[2]);
}
