/*
 * What the library knows of libibverbs' structures, which programs are compiled with and which are
 * unchanged since its version 1.0.
 */
#ifndef SOFTRDMA_VERBS_H
#define SOFTRDMA_VERBS_H

#include <pthread.h>
#include <stdint.h>

/* struct ibv_context */
enum { OPS_POLL_CQ = 11, OPS_POST_SRQ_RECV = 20, OPS_POST_SEND = 25, OPS_POST_RECV = 26, OPS = 32 };

struct context {
	void *device;
	void *ops[OPS];
	int cmd_fd, async_fd, completion_vectors;
	pthread_mutex_t lock;
	void *compatible; /* EXTENDED at the end of a struct verbs_context */
};

/* Our devices use two providers: rxe and siw. */
enum { PROVIDERS = 2 };

/* The start of struct ibv_qp. */
struct queue_pair {
	struct context *context;
	void *user, *pd, *send_cq, *recv_cq, *srq;
	uint32_t handle;
};

/* The start of struct ibv_srq. */
struct shared_queue {
	struct context *context;
	void *user, *pd;
	uint32_t handle;
};

/* sanitize_posts lets the sanitizer look at what is posted to queues of a context, whose provider has the number. */
void sanitize_posts(struct context *c, int provider);

#endif
