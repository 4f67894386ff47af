/*
 * A program that makes one mistake: mistakes NAME. It is correct otherwise, and ends in order.
 */
#include "verbs.h"

static struct device d;

static struct ibv_sge entry(struct ibv_mr *mr, uint32_t n) { return (struct ibv_sge){ (uintptr_t)mr->addr, n, mr->lkey }; }

static struct ibv_mr *region(void)
{
	struct ibv_mr *mr = ibv_reg_mr(d.pd, d.memory, 4096, rights);

	CHECK(mr);
	return mr;
}

static void receive(struct side *s, struct ibv_mr *mr)
{
	struct ibv_sge sge = entry(mr, 64);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(ibv_post_recv(s->qp, &wr, &bad) == 0);
}

static int request(struct side *s, enum ibv_wr_opcode opcode, struct ibv_mr *local, uint32_t rkey, int flags)
{
	struct ibv_sge sge = entry(local, 64);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags }, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)d.memory + SIZE;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(s->qp, &wr, &bad);
}

static int write_to(struct side *s, struct ibv_mr *from, uint32_t rkey, int flags)
{
	return request(s, IBV_WR_RDMA_WRITE, from, rkey, flags);
}

static void send_to(struct side *from, struct side *to)
{
	CHECK(post(from, IBV_WR_SEND, entry(d.mr, 64), 0, 0) == 0);
	CHECK(completion(from) == IBV_WC_SUCCESS && completion(to) == IBV_WC_SUCCESS);
}

static void nothing(void)
{
	traffic(&d);
	receive(&d.b, d.mr);
	send_to(&d.a, &d.b);
	d.memory[5]++;
}

static void use_after_dereg(void)
{
	struct ibv_mr *mr = region(), copy = *mr;

	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(write_to(&d.a, &copy, d.mr->rkey, IBV_SEND_SIGNALED) == 0);
	CHECK(completion(&d.a) == IBV_WC_LOC_PROT_ERR);
}

static void peer_uses_after_dereg(void)
{
	struct ibv_mr *mr = region();
	uint32_t key = mr->rkey;

	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(write_to(&d.a, d.mr, key, IBV_SEND_SIGNALED) == 0);
	CHECK(completion(&d.a) == IBV_WC_REM_ACCESS_ERR);
}

static void dereg_in_flight(void)
{
	struct ibv_mr *mr = region();

	receive(&d.b, mr);
	CHECK(ibv_dereg_mr(mr) == 0);
}

static void other_pd(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(d.context);
	struct ibv_mr *mr;

	CHECK(pd && (mr = ibv_reg_mr(pd, d.memory, 4096, rights)));
	CHECK(write_to(&d.a, mr, d.mr->rkey, IBV_SEND_SIGNALED) == 0);
	CHECK(completion(&d.a) == IBV_WC_LOC_PROT_ERR);
	CHECK(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0);
}

/* The peer is not ready, so the request is repeated until it is. */
static void change(enum ibv_wr_opcode opcode)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	CHECK(ibv_modify_qp(d.b.qp, &reset, IBV_QP_STATE) == 0);
	CHECK(request(&d.a, opcode, d.mr, d.mr->rkey, IBV_SEND_SIGNALED) == 0);
	d.memory[5]++;
	connect_side(&d, &d.b, &d.a);
	CHECK(completion(&d.a) == IBV_WC_SUCCESS);
}

static void send_changed(void) { change(IBV_WR_RDMA_WRITE); }

static void read_changed(void) { change(IBV_WR_RDMA_READ); }

static void receive_changed(void)
{
	receive(&d.b, d.mr);
	d.memory[5]++;
	send_to(&d.a, &d.b);
}

static void shared_receive_changed(void)
{
	struct ibv_srq_init_attr r = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ibv_qp_init_attr q = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, 0, 1, 0, 0 } };
	struct ibv_sge sge = entry(d.mr, 64);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct side s;

	CHECK(s.cq = ibv_create_cq(d.context, 2 * DEPTH, NULL, NULL, 0));
	CHECK(q.srq = ibv_create_srq(d.pd, &r));
	q.send_cq = q.recv_cq = s.cq;
	CHECK(s.qp = ibv_create_qp(d.pd, &q));
	connect_side(&d, &s, &s);
	CHECK(ibv_post_srq_recv(q.srq, &wr, &bad) == 0);
	d.memory[5]++;
	CHECK(post(&s, IBV_WR_SEND, sge, 0, 0) == 0);
	CHECK(completion(&s) == IBV_WC_SUCCESS && completion(&s) == IBV_WC_SUCCESS);
	CHECK(ibv_destroy_qp(s.qp) == 0 && ibv_destroy_srq(q.srq) == 0 && ibv_destroy_cq(s.cq) == 0);
}

static void sends_unsignaled(void)
{
	int i;

	for (i = 0; i < 4 * DEPTH; i++)
		while (write_to(&d.a, d.mr, d.mr->rkey, 0) != 0) /* the queue is full */
			usleep(1000);
}

static void cq_too_shallow(void)
{
	struct side few;
	struct ibv_qp_init_attr q = { .qp_type = IBV_QPT_RC, .cap = { 4 * DEPTH, 4 * DEPTH, 1, 1, 0 } };
	int i;

	CHECK(few.cq = ibv_create_cq(d.context, DEPTH, NULL, NULL, 0));
	q.send_cq = q.recv_cq = few.cq;
	CHECK(few.qp = ibv_create_qp(d.pd, &q));
	connect_side(&d, &few, &d.b);
	for (i = 0; i < 3 * DEPTH; i++)
		receive(&few, d.mr);
	CHECK(write_to(&few, d.mr, d.mr->rkey, 0) == 0);
	CHECK(ibv_destroy_qp(few.qp) == 0 && ibv_destroy_cq(few.cq) == 0);
}

static void cq_unpolled(void)
{
	volatile char *to = d.memory + SIZE;

	d.memory[0] = 1;
	CHECK(write_to(&d.a, d.mr, d.mr->rkey, IBV_SEND_SIGNALED) == 0);
	while (!*to)
		usleep(1000);
}

static void failure_unpolled(void)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr i;

	traffic(&d);
	CHECK(write_to(&d.a, d.mr, d.mr->rkey ^ 1, IBV_SEND_SIGNALED) == 0);
	do
		CHECK(usleep(1000) == 0 && ibv_query_qp(d.a.qp, &a, IBV_QP_STATE, &i) == 0);
	while (a.qp_state != IBV_QPS_ERR);
}

static void woken(int sig) { (void)sig; }

static void event_unarmed(void)
{
	struct sigaction a = { .sa_handler = woken };
	struct ibv_comp_channel *channel = ibv_create_comp_channel(d.context);
	struct ibv_cq *cq;
	void *context;

	CHECK(channel && (cq = ibv_create_cq(d.context, 1, NULL, channel, 0)));
	CHECK(sigaction(SIGALRM, &a, NULL) == 0);
	ualarm(100000, 100000);
	CHECK(ibv_get_cq_event(channel, &cq, &context) != 0);
	ualarm(0, 0);
	CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
}

static void receive_missing(void)
{
	CHECK(post(&d.a, IBV_WR_SEND, entry(d.mr, 64), 0, 0) == 0);
	usleep(100000);
	receive(&d.b, d.mr);
	CHECK(completion(&d.a) == IBV_WC_SUCCESS && completion(&d.b) == IBV_WC_SUCCESS);
}

static void object_leaked(void) { CHECK(ibv_alloc_pd(d.context)); }

static void rights_unused(void)
{
	CHECK(write_to(&d.a, d.mr, d.mr->rkey, IBV_SEND_SIGNALED) == 0);
	CHECK(completion(&d.a) == IBV_WC_SUCCESS);
}

/* The peer gets the address and the key of memory that it may not use. */
static void key_sent(void)
{
	struct ibv_mr *mr = ibv_reg_mr(d.pd, d.memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct { uint64_t address; uint32_t key; } *message = (void *)(d.memory + SIZE);
	struct ibv_sge sge = { (uintptr_t)message, sizeof(*message), d.mr->lkey };

	CHECK(mr);
	receive(&d.b, d.mr);
	message->address = (uintptr_t)mr->addr;
	message->key = mr->rkey;
	CHECK(post(&d.a, IBV_WR_SEND, sge, 0, 0) == 0);
	CHECK(completion(&d.a) == IBV_WC_SUCCESS && completion(&d.b) == IBV_WC_SUCCESS);
	CHECK(ibv_dereg_mr(mr) == 0);
}

static void end(int leaked)
{
	CHECK(ibv_destroy_qp(d.a.qp) == 0 && ibv_destroy_qp(d.b.qp) == 0);
	CHECK(ibv_destroy_cq(d.a.cq) == 0 && ibv_destroy_cq(d.b.cq) == 0);
	CHECK(ibv_dereg_mr(d.mr) == 0 && ibv_dealloc_pd(d.pd) == 0);
	CHECK(leaked || ibv_close_device(d.context) == 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*make)(void);
	} mistakes[] = {
		{ "nothing", nothing },
		{ "use_after_dereg", use_after_dereg },
		{ "peer_uses_after_dereg", peer_uses_after_dereg },
		{ "dereg_in_flight", dereg_in_flight },
		{ "lkey_other_pd", other_pd },
		{ "send_changed", send_changed },
		{ "receive_changed", receive_changed },
		{ "shared_receive_changed", shared_receive_changed },
		{ "read_changed", read_changed },
		{ "sends_unsignaled", sends_unsignaled },
		{ "cq_too_shallow", cq_too_shallow },
		{ "cq_unpolled", cq_unpolled },
		{ "failure_unpolled", failure_unpolled },
		{ "event_unarmed", event_unarmed },
		{ "receive_missing", receive_missing },
		{ "object_leaked", object_leaked },
		{ "rights_unused", rights_unused },
		{ "key_sent", key_sent },
	};
	size_t i;

	CHECK(argc == 2);
	device_begin(&d);
	for (i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
		if (strcmp(argv[1], mistakes[i].name) == 0) {
			mistakes[i].make();
			end(mistakes[i].make == object_leaked);
			return 0;
		}
	die("unknown mistake %s", argv[1]);
}
