/* All devices of the list in one process: devices. */
#include "verbs.h"

#define MOST 4

static struct device devices[MOST];
static int count;

/* begin opens a device of the list by its place. */
static void begin(struct device *d, struct ibv_device *from)
{
	CHECK(d->context = ibv_open_device(from));
	CHECK(d->pd = ibv_alloc_pd(d->context));
	if (!d->memory)
		CHECK((d->memory = calloc(2, SIZE)));
	CHECK(d->mr = ibv_reg_mr(d->pd, d->memory, 2 * SIZE, rights));
	connect_sides(d);
}

static void end(struct device *d)
{
	CHECK(ibv_destroy_qp(d->a.qp) == 0 && ibv_destroy_qp(d->b.qp) == 0);
	CHECK(ibv_destroy_cq(d->a.cq) == 0 && ibv_destroy_cq(d->b.cq) == 0);
	CHECK(ibv_dereg_mr(d->mr) == 0 && ibv_dealloc_pd(d->pd) == 0 && ibv_close_device(d->context) == 0);
}

/* events waits for events of a channel of a device, which the peer's device causes. */
static void events(struct device *d, struct device *peer)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(d->context);
	struct ibv_cq *cq = ibv_create_cq(d->context, DEPTH, NULL, channel, 0), *found;
	struct ibv_qp_init_attr i = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .cap = { DEPTH, DEPTH, 1, 1, 64 } };
	struct ibv_sge sge = { (uintptr_t)d->memory, SIZE, d->mr->lkey }, from = { (uintptr_t)peer->memory, SIZE, peer->mr->lkey };
	struct ibv_recv_wr r = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct side near = { .cq = cq }, far;
	union ibv_gid gid[2];
	void *context;
	int k;

	CHECK(channel && cq && (near.qp = ibv_create_qp(d->pd, &i)));
	make_side(peer, &far, DEPTH);
	CHECK(ibv_query_gid(d->context, 1, 0, &gid[0]) == 0 && ibv_query_gid(peer->context, 1, 0, &gid[1]) == 0);
	peer_gid = &gid[1];
	connect_side(d, &near, &far);
	peer_gid = &gid[0];
	connect_side(peer, &far, &near);
	peer_gid = NULL;
	for (k = 0; k < 20; k++) {
		CHECK(ibv_req_notify_cq(cq, 0) == 0 && ibv_post_recv(near.qp, &r, &bad) == 0);
		memset(peer->memory, k, SIZE);
		CHECK(post(&far, IBV_WR_SEND, from, 0, 0) == 0);
		CHECK(ibv_get_cq_event(channel, &found, &context) == 0 && found == cq);
		ibv_ack_cq_events(cq, 1);
		CHECK(completion(&near) == IBV_WC_SUCCESS && d->memory[SIZE - 1] == k && completion(&far) == IBV_WC_SUCCESS);
	}
	CHECK(ibv_destroy_qp(near.qp) == 0 && ibv_destroy_qp(far.qp) == 0 && ibv_destroy_cq(far.cq) == 0);
	CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(&count);
	int i, k;

	CHECK(list && count >= 2 && count <= MOST);
	for (i = 0; i < count; i++)
		begin(&devices[i], list[i]);
	for (k = 0; k < 10; k++)
		for (i = 0; i < count; i++)
			traffic(&devices[i]);
	for (i = 0; i < count; i++)
		events(&devices[i], &devices[(i + 1) % count]);
	end(&devices[0]);
	traffic(&devices[1]);
	begin(&devices[0], list[0]); /* a second time */
	for (i = 0; i < count; i++)
		traffic(&devices[i]);
	for (i = 0; i < count; i++)
		end(&devices[i]);
	ibv_free_device_list(list);
	printf("%d devices: ok\n", count);
	return 0;
}
