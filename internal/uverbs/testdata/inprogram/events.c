/* A program waits for events of completion channels: events. */
#include "verbs.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static struct device d;
static struct ibv_comp_channel *channel;
static struct side from, to;
static atomic_int waiter;

static void await_sleep(void)
{
	double end = now() + 30;

	while (!atomic_load(&waiter) || !in_call(atomic_load(&waiter), SYS_read))
		if (now() > end)
			die("the thread does not wait");
}

static void write_one(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)d.memory, .length = 8, .lkey = d.mr->lkey };

	CHECK(post(&from, IBV_WR_RDMA_WRITE, sge, (uintptr_t)d.memory + SIZE, d.mr->rkey) == 0);
}

/* event waits for one, acknowledges it, and takes the completion. */
static void event(void)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	CHECK(ibv_get_cq_event(channel, &cq, &context) == 0 && cq == from.cq);
	ibv_ack_cq_events(cq, 1);
	CHECK(ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(ibv_req_notify_cq(cq, 0) == 0);
}

static void *wait_for_event(void *unused)
{
	atomic_store(&waiter, (int)syscall(SYS_gettid));
	event();
	return unused;
}

static void woken(int sig) { (void)sig; }

static void *wait_for_signal(void *unused)
{
	struct ibv_cq *cq;
	void *context;

	atomic_store(&waiter, (int)syscall(SYS_gettid));
	CHECK(ibv_get_cq_event(channel, &cq, &context) == -1 && errno == EINTR);
	return unused;
}

int main(void)
{
	struct ibv_qp_init_attr i = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, 64 } };
	struct sigaction a = { .sa_handler = woken };
	struct ibv_cq *cq;
	void *context;
	pthread_t t;
	int n;

	device_begin(&d);
	CHECK(channel = ibv_create_comp_channel(d.context));
	CHECK(from.cq = ibv_create_cq(d.context, 2 * DEPTH, NULL, channel, 0));
	i.send_cq = i.recv_cq = from.cq;
	CHECK(from.qp = ibv_create_qp(d.pd, &i));
	make_side(&d, &to, DEPTH);
	connect_side(&d, &from, &to);
	connect_side(&d, &to, &from);
	CHECK(ibv_req_notify_cq(from.cq, 0) == 0);

	for (n = 0; n < 1000; n++) { /* the event is there, or comes while the thread polls */
		write_one();
		event();
	}
	printf("at once: ok\n");

	CHECK(pthread_create(&t, NULL, wait_for_event, NULL) == 0);
	await_sleep();
	write_one();
	CHECK(pthread_join(t, NULL) == 0);
	printf("asleep: ok\n");

	CHECK(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
	CHECK(ibv_get_cq_event(channel, &cq, &context) == -1 && errno == EAGAIN);
	write_one();
	event();
	CHECK(fcntl(channel->fd, F_SETFL, 0) == 0);
	printf("nonblocking: ok\n");

	CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
	atomic_store(&waiter, 0);
	CHECK(pthread_create(&t, NULL, wait_for_signal, NULL) == 0);
	await_sleep();
	CHECK(pthread_kill(t, SIGUSR1) == 0);
	CHECK(pthread_join(t, NULL) == 0);
	printf("interrupted: ok\n");
	return 0;
}
