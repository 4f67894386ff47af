/*
 * A thread waits for an event of a connection manager's channel that another
 * thread closes: channel ADDRESS. In Linux the call goes on, since it keeps the
 * file open, and returns the next event.
 */
#include "verbs.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static struct rdma_event_channel *server;
static atomic_int waiter;

#define GET_EVENT 12 /* RDMA_USER_CM_CMD_GET_EVENT */

/*
 * The command, not rdma_get_cm_event, which calls the closed descriptor again. The
 * kernel's rdma_user_cm.h cannot be included beside the library's header.
 */
static void *wait_for_event(void *unused)
{
	struct {
		uint64_t uid;
		uint32_t id, event;
		char rest[496];
	} event = { .event = ~0U };
	struct {
		uint32_t command;
		uint16_t in, out;
		uint64_t response;
	} get = { GET_EVENT, sizeof(get.response), sizeof(event), (uintptr_t)&event };

	atomic_store(&waiter, (int)syscall(SYS_gettid));
	CHECK(write(server->fd, &get, sizeof(get)) == (ssize_t)sizeof(get));
	CHECK(event.event == RDMA_CM_EVENT_CONNECT_REQUEST);
	return unused;
}

static void expect(struct rdma_event_channel *c, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	CHECK(rdma_get_cm_event(c, &e) == 0);
	CHECK(e->event == type);
	CHECK(rdma_ack_cm_event(e) == 0);
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7999) };
	struct rdma_conn_param how = { .responder_resources = 1, .initiator_depth = 1 };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct rdma_event_channel *client;
	struct rdma_cm_id *listener, *id;
	double end = now() + 30;
	pthread_t t;

	CHECK(argc == 2 && inet_pton(AF_INET, argv[1], &at.sin_addr) == 1);
	CHECK((server = rdma_create_event_channel()) && (client = rdma_create_event_channel()));
	CHECK(rdma_create_id(server, &listener, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(listener, (struct sockaddr *)&at) == 0 && rdma_listen(listener, 1) == 0);
	CHECK(rdma_create_id(client, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, 2000) == 0);
	expect(client, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_resolve_route(id, 2000) == 0);
	expect(client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(rdma_create_qp(id, NULL, &init) == 0);

	CHECK(pthread_create(&t, NULL, wait_for_event, NULL) == 0);
	while (!atomic_load(&waiter) || !in_call(atomic_load(&waiter), SYS_poll))
		if (now() > end)
			die("the thread does not wait");
	CHECK(close(server->fd) == 0);
	CHECK(rdma_connect(id, &how) == 0);
	pthread_join(t, NULL);
	printf("ok\n");
	return 0;
}
