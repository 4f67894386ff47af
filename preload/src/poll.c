/*
 * Polling. A program that polls for completions in a loop keeps a processor busy that its
 * peer's thread or the server's may need first. The device's context has a pointer to the poll
 * function, which libibverbs allows to be replaced (struct ibv_context, unchanged since
 * version 1.0). The function here calls the provider's, and yields the processor if that finds
 * nothing. With the engine in this process it receives instead. ibv_start_poll is treated in
 * the same way for extended completion queues, each of which has its own pointer. From time to
 * time the function checks that the server still runs, because a program that only polls would
 * not notice its end.
 */
#include "preload.h"
#include "verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>

typedef int poll_function(void *cq, int n, void *wc);

#define EXTENDED ((void *)UINTPTR_MAX)

/* The end of struct verbs_context, which grows at its beginning. */
struct extended_context {
	void *create_cq_ex;
	void *between[13];
	size_t size; /* of the whole structure */
	struct context context;
};

static _Atomic(poll_function *) provider_poll[PROVIDERS];

/* Number of consecutive empty polls of a thread before it yields. */
#define EMPTY_POLLS 8
static __thread unsigned empty_polls __attribute__((tls_model("initial-exec")));

/* Number of yields before a check of the server. */
#define TRUST 256
static __thread unsigned yields __attribute__((tls_model("initial-exec")));

/*
 * Threads that take turns polling one completion queue do so under a lock. UCX's is a spin
 * lock: a thread that yields while it holds the lock gives its processor to one that spins
 * until the kernel preempts it. So no thread yields until one of them has polled the queue
 * exclusively for some time. Queues share the entries of a table, which only makes their
 * threads yield less.
 */
#define POLLED_ALONE 4096
static struct {
	_Atomic(unsigned *) thread; /* the last that polled: the address of its empty_polls */
	_Atomic unsigned together;  /* polls until threads may yield again */
} pollers[64];

static int may_yield(uint32_t handle)
{
	unsigned i = handle % (sizeof pollers / sizeof *pollers), n;
	unsigned *before = atomic_load_explicit(&pollers[i].thread, memory_order_relaxed);

	if (before != &empty_polls) {
		atomic_store_explicit(&pollers[i].thread, &empty_polls, memory_order_relaxed);
		if (before)
			atomic_store_explicit(&pollers[i].together, POLLED_ALONE, memory_order_relaxed);
		return !before;
	}
	n = atomic_load_explicit(&pollers[i].together, memory_order_relaxed);
	if (n)
		atomic_store_explicit(&pollers[i].together, n - 1, memory_order_relaxed);
	return !n;
}

/* A device file is a pipe, whose other end the server has. */
int device_gone(int fd)
{
	struct pollfd pf = { .fd = fd };
	int old = errno, gone;

	gone = poll(&pf, 1, 0) > 0 && (pf.revents & (POLLHUP | POLLERR));
	errno = old;
	return gone;
}

static int server_gone(void *cq)
{
	struct context *c = *(struct context **)cq; /* struct ibv_cq begins with it */

	return ours(c->cmd_fd) && device_gone(c->cmd_fd);
}

/* struct ibv_cq */
struct completion_queue {
	struct context *context;
	void *channel, *user;
	uint32_t handle;
	int entries;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t completion_events, async_events;
};

/* The start of struct ibv_cq_ex. */
struct extended_queue;
typedef int start_function(struct extended_queue *q, void *attributes);

struct extended_queue {
	struct completion_queue queue;
	uint32_t mask;
	int status;
	uint64_t id;
	start_function *start;
};

typedef struct extended_queue *create_function(struct context *c, void *attributes);

static int poll_with(int provider, void *cq, int n, void *wc)
{
	poll_function *take = atomic_load_explicit(&provider_poll[provider], memory_order_relaxed);
	struct completion_queue *q = cq;
	int got = take(cq, n, wc), yield;

	if (got) {
		empty_polls = 0;
	} else if (in_engine(q->context->cmd_fd)) {
		if (n > 0 && engine_receive(q->context->cmd_fd, q->handle, may_yield(q->handle)) < 0)
			return -EIO;
		return take(cq, n, wc);
	} else if (yield = may_yield(q->handle), ++empty_polls >= EMPTY_POLLS) {
		empty_polls = 0;
		if (yield)
			sched_yield();
		if (++yields % TRUST == 0 && server_gone(cq))
			return -EIO;
	}
	return got;
}

static int poll_first(void *cq, int n, void *wc) { return poll_with(0, cq, n, wc); }
static int poll_second(void *cq, int n, void *wc) { return poll_with(1, cq, n, wc); }
static poll_function *const polls[PROVIDERS] = { poll_first, poll_second };

/* Only the rxe provider has extended completion queues. */
static _Atomic(create_function *) provider_create;
static _Atomic(start_function *) provider_start;

static int start_first(struct extended_queue *q, void *attributes)
{
	start_function *start = atomic_load_explicit(&provider_start, memory_order_relaxed);
	int fd = q->queue.context->cmd_fd, err = start(q, attributes);

	if (err != ENOENT)
		return err;
	if (engine_receive(fd, q->queue.handle, may_yield(q->queue.handle)) < 0)
		return EIO;
	return start(q, attributes);
}

static struct extended_queue *create_first(struct context *c, void *attributes)
{
	create_function *create = atomic_load_explicit(&provider_create, memory_order_relaxed);
	struct extended_queue *q = create(c, attributes);
	start_function *known = NULL;

	if (!q || !in_engine(c->cmd_fd) || !q->start)
		return q;
	if (atomic_compare_exchange_strong(&provider_start, &known, q->start) || known == q->start)
		q->start = start_first;
	return q;
}

/* extend replaces functions in an extended context. */
static void extend(struct context *c)
{
	struct extended_context *e;
	create_function *create, *known = NULL;

	if (c->compatible != EXTENDED || !in_engine(c->cmd_fd))
		return;
	e = (struct extended_context *)((char *)c - offsetof(struct extended_context, context));
	if (e->size < sizeof(*e) || !e->create_cq_ex)
		return;
	create = (create_function *)e->create_cq_ex;
	if (atomic_compare_exchange_strong(&provider_create, &known, create) || known == create)
		e->create_cq_ex = (void *)create_first;
}

/*
 * libibverbs finds a function of libibverbs, or of another preloaded library that replaces it. Before
 * glibc 2.36, RTLD_NEXT finds the oldest version, and those of IBVERBS_1.0 call the functions of this
 * library again. libibverbs stays loaded, because the caller keeps the function.
 */
void *libibverbs(const char *name)
{
	void *library = loader()->open("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *symbol = next(name);

	if (library && (!symbol || symbol == loader()->version(library, name, "IBVERBS_1.0")))
		symbol = loader()->symbol(library, name);
	return symbol;
}

EXPORT void *ibv_open_device(void *device)
{
	static _Atomic(void *) at;
	void *symbol = atomic_load_explicit(&at, memory_order_relaxed);
	struct context *c;
	poll_function *poll, *known;
	int i;

	if (!symbol) {
		symbol = libibverbs("ibv_open_device");
		if (!symbol) {
			errno = ENOSYS;
			return NULL;
		}
		atomic_store_explicit(&at, symbol, memory_order_relaxed);
	}
	c = ((struct context *(*)(void *))symbol)(device);
	if (!c || !ours(c->cmd_fd))
		return c;
	poll = (poll_function *)c->ops[OPS_POLL_CQ];
	for (i = 0; i < PROVIDERS; i++) {
		known = NULL;
		if (atomic_compare_exchange_strong(&provider_poll[i], &known, poll) || known == poll) {
			c->ops[OPS_POLL_CQ] = (void *)polls[i];
			if (sanitize_on() && in_engine(c->cmd_fd))
				sanitize_posts(c, i);
			break;
		}
	}
	extend(c);
	return c;
}

/*
 * ibv_get_device_list says why it is empty although softrdma has devices: libibverbs finds the
 * driver of a device by files in another package.
 */
EXPORT void **ibv_get_device_list(int *count)
{
	static const char why[] =
		"softrdma: PROVIDERS_MISSING: libibverbs has no driver for the devices: expected 1 or more devices, found 0: "
		"install ibverbs-providers (Debian, Ubuntu) or the providers of rdma-core\n";
	static _Atomic(void *) at;
	static atomic_int said;
	void *symbol = atomic_load_explicit(&at, memory_order_relaxed);
	void **list;
	int old;

	if (!symbol) {
		symbol = libibverbs("ibv_get_device_list");
		if (!symbol) {
			errno = ENOSYS;
			return NULL;
		}
		atomic_store_explicit(&at, symbol, memory_order_relaxed);
	}
	list = ((void **(*)(int *))symbol)(count);
	old = errno;
	if (list && !list[0] && has_devices() && !atomic_exchange(&said, 1))
		fputs(why, stderr);
	errno = old;
	return list;
}
