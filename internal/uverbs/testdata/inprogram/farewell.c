/*
 * Two ids of one program connect and end: farewell ADDRESS HOW. With "failed", a request of the server's
 * queue pair fails before it disconnects; with "ended", it disconnects. It prints the vendor_err of the
 * receive that is flushed at the client.
 */
#include "verbs.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

static struct rdma_cm_id *expect(struct rdma_event_channel *c, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	CHECK(rdma_get_cm_event(c, &e) == 0);
	if (e->event != type)
		die("event %s, expected %s", rdma_event_str(e->event), rdma_event_str(type));
	id = e->id;
	CHECK(rdma_ack_cm_event(e) == 0);
	return id;
}

static struct ibv_wc one_of(struct ibv_cq *cq)
{
	double end = now() + 30;
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		CHECK(now() < end);
	CHECK(n == 1);
	return wc;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7998) };
	struct rdma_conn_param how = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } }, same = init;
	struct ibv_sge nowhere = { 8, 8, 0xdead };
	struct ibv_send_wr bad = { .sg_list = &nowhere, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr receive = { .num_sge = 0 }, *badr;
	struct rdma_cm_id *listener, *client, *server;
	struct rdma_event_channel *a, *b;
	struct ibv_send_wr *bads;
	struct ibv_wc wc;

	CHECK(argc == 3 && inet_pton(AF_INET, argv[1], &at.sin_addr) == 1);
	CHECK((a = rdma_create_event_channel()) && (b = rdma_create_event_channel()));
	CHECK(rdma_create_id(b, &listener, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(listener, (struct sockaddr *)&at) == 0 && rdma_listen(listener, 1) == 0);
	CHECK(rdma_create_id(a, &client, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(client, NULL, (struct sockaddr *)&at, 2000) == 0);
	expect(a, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_resolve_route(client, 2000) == 0);
	expect(a, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(rdma_create_qp(client, NULL, &init) == 0);
	CHECK(ibv_post_recv(client->qp, &receive, &badr) == 0);
	CHECK(rdma_connect(client, &how) == 0);
	server = expect(b, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(rdma_create_qp(server, NULL, &same) == 0); /* the library has changed init */
	CHECK(rdma_accept(server, &how) == 0);
	expect(a, RDMA_CM_EVENT_ESTABLISHED);
	expect(b, RDMA_CM_EVENT_ESTABLISHED);

	if (!strcmp(argv[2], "failed")) {
		CHECK(ibv_post_send(server->qp, &bad, &bads) == 0);
		wc = one_of(server->send_cq);
		CHECK(wc.status == IBV_WC_LOC_PROT_ERR);
	}
	CHECK(rdma_disconnect(server) == 0);
	expect(a, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(rdma_disconnect(client) == 0);
	wc = one_of(client->recv_cq);
	CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
	printf("vendor_err %u\n", wc.vendor_err);
	return 0;
}
