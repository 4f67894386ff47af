/* A program ends while its device carries data: ends MODE. */
#include "verbs.h"

#include <sys/prctl.h>
#include <sys/resource.h>

static struct device d;

/* send_on posts and polls until the program has ended: no call fails before. */
static void *send_on(void *device)
{
	struct device *x = device;
	struct ibv_sge sge = { (uintptr_t)x->memory, SIZE, x->mr->lkey };
	struct ibv_wc wc;
	int posted = 0, n;

	for (;;) {
		for (; posted < DEPTH / 2; posted++)
			CHECK(post(&x->a, IBV_WR_RDMA_WRITE, sge, (uintptr_t)x->memory + SIZE, x->mr->rkey) == 0);
		for (; (n = ibv_poll_cq(x->a.cq, 1, &wc)) > 0; posted--)
			CHECK(wc.status == IBV_WC_SUCCESS);
		CHECK(n == 0);
	}
	return NULL;
}

/* wait_on waits for an event of a channel, and there is none. */
static void *wait_on(void *channel)
{
	struct ibv_cq *cq;
	void *context;

	CHECK(ibv_get_cq_event(channel, &cq, &context) == 0);
	die("an event that nothing made");
	return NULL;
}

/* make_on makes and destroys objects. */
static void *make_on(void *device)
{
	struct device *x = device;
	struct ibv_pd *pd;

	for (;;) {
		CHECK(pd = ibv_alloc_pd(x->context));
		CHECK(ibv_dealloc_pd(pd) == 0);
	}
	return NULL;
}

static void leave(void) { exit(3); }
static void leave_now(void) { _exit(3); }
static void leave_quickly(void) { quick_exit(3); }
static void give_up(void) { abort(); }
static void killed(void) { kill(getpid(), SIGKILL); }
static void replaced(void) { execl("/bin/sh", "sh", "-c", "exit 3", NULL); }

static void *leaves(void *unused) { exit(3); return unused; }
static void other_thread(void)
{
	pthread_t t;

	pthread_create(&t, NULL, leaves, NULL);
	pthread_join(t, NULL);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "exit", leave }, { "_exit", leave_now }, { "quick_exit", leave_quickly }, { "abort", give_up },
		{ "kill", killed }, { "exec", replaced }, { "thread", other_thread },
	};
	struct rlimit none = { 0, 0 };
	struct ibv_comp_channel *channel;
	pthread_t t;
	size_t i;

	setrlimit(RLIMIT_CORE, &none);
	device_begin(&d);
	traffic(&d);
	CHECK(channel = ibv_create_comp_channel(d.context));
	CHECK(pthread_create(&t, NULL, send_on, &d) == 0);
	CHECK(pthread_create(&t, NULL, wait_on, channel) == 0);
	CHECK(pthread_create(&t, NULL, make_on, &d) == 0);
	usleep(20000);
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (argc > 1 && strcmp(argv[1], modes[i].name) == 0)
			modes[i].run();
	return 1;
}
