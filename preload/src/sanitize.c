/*
 * The sanitizer's part in the program: positions of its calls. The engine checks, and resolves the
 * addresses when it has found a mistake.
 */
#include "preload.h"
#include "engine.h"
#include "verbs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of execinfo.h, which not every C library has. */
extern int backtrace(void **addresses, int n) __attribute__((weak));

enum { FRAMES = 32 };

static struct {
	int wanted;
	char rules[1024], suppressions[PATH_MAX], json[PATH_MAX];
	engine_waits *waits; /* not NULL if the engine checks */
	engine_posted *posted;
} sanitizer;

static __thread void *addresses[FRAMES] __attribute__((tls_model("initial-exec")));
static __thread int frames __attribute__((tls_model("initial-exec")));

static void keep(char *to, size_t room, const char *name)
{
	const char *s = getenv(name);

	if (s && strlen(s) < room)
		strcpy(to, s);
}

void sanitize_init(void)
{
	const char *s = getenv("SOFTRDMA_SANITIZE");

	sanitizer.wanted = s && *s;
	keep(sanitizer.rules, sizeof(sanitizer.rules), "SOFTRDMA_SANITIZE");
	keep(sanitizer.suppressions, sizeof(sanitizer.suppressions), "SOFTRDMA_SANITIZE_SUPPRESSIONS");
	keep(sanitizer.json, sizeof(sanitizer.json), "SOFTRDMA_SANITIZE_JSON");
}

static int position(void ***to)
{
	*to = addresses;
	return frames;
}

int sanitize_begin(void *library, char *why, size_t room)
{
	engine_sanitize *begin;
	engine_waits *waits;
	int err;

	if (!sanitizer.wanted)
		return 0;
	begin = (engine_sanitize *)loader()->symbol(library, "softrdma_engine_sanitize");
	waits = (engine_waits *)loader()->symbol(library, "softrdma_engine_waits");
	sanitizer.posted = (engine_posted *)loader()->symbol(library, "softrdma_engine_posted");
	if (!begin || !waits || !sanitizer.posted) {
		snprintf(why, room, "%s", loader()->error());
		return -ELIBACC;
	}
	if (backtrace) /* its first call loads a library */
		backtrace(addresses, FRAMES);
	err = begin(sanitizer.rules, sanitizer.suppressions, sanitizer.json, position, why, room);
	if (!err)
		sanitizer.waits = waits;
	return err;
}

void sanitize_enter(void)
{
	if (__builtin_expect(sanitizer.waits && backtrace, 0))
		frames = backtrace(addresses, FRAMES);
}

void sanitize_leave(void) { frames = 0; }

int sanitize_on(void) { return sanitizer.waits != NULL; }

void sanitize_waits(uint64_t file, int took)
{
	sanitize_enter();
	sanitizer.waits(file, took);
	sanitize_leave();
}

void sanitize_posted(uint64_t file, uint32_t handle, int receives)
{
	sanitize_enter();
	sanitizer.posted(file, handle, receives);
	sanitize_leave();
}

/*
 * Providers post receives to the ring without a call, and siw's also sends. So the sanitizer's functions
 * stand before theirs, in the context, as poll.c's do.
 */
typedef int post_function(void *queue, void *requests, void **bad);

enum { SEND, RECV, SRQ_RECV, POSTS };
static const int places[POSTS] = { OPS_POST_SEND, OPS_POST_RECV, OPS_POST_SRQ_RECV };
static _Atomic(post_function *) provider_post[PROVIDERS][POSTS];

static int post(int provider, int what, void *queue, void *requests, void **bad)
{
	struct queue_pair *q = queue;
	struct shared_queue *s = queue;
	int err = atomic_load_explicit(&provider_post[provider][what], memory_order_relaxed)(queue, requests, bad);

	engine_posts(q->context->cmd_fd, what == SRQ_RECV ? s->handle : q->handle, what != SEND);
	return err;
}

#define POST(name, provider, what) \
	static int name(void *queue, void *requests, void **bad) { return post(provider, what, queue, requests, bad); }

POST(send_first, 0, SEND)
POST(recv_first, 0, RECV)
POST(srq_first, 0, SRQ_RECV)
POST(send_second, 1, SEND)
POST(recv_second, 1, RECV)
POST(srq_second, 1, SRQ_RECV)

static post_function *const posts[PROVIDERS][POSTS] = {
	{ send_first, recv_first, srq_first },
	{ send_second, recv_second, srq_second },
};

void sanitize_posts(struct context *c, int provider)
{
	post_function *known, *of;
	int i;

	for (i = 0; i < POSTS; i++) {
		known = NULL;
		of = (post_function *)c->ops[places[i]];
		if (of && (atomic_compare_exchange_strong(&provider_post[provider][i], &known, of) || known == of))
			c->ops[places[i]] = (void *)posts[provider][i];
	}
}
