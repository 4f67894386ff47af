/*
 * Omission of doorbells. The engine in this process says in memory which doorbells are not
 * needed.
 */
#include "preload.h"

#include <string.h>

#define POST_SEND 28

int is_doorbell(const void *buf, size_t n, struct doorbell *d)
{
	if (n != sizeof(*d))
		return 0;
	memcpy(d, buf, sizeof(*d));
	return d->command == POST_SEND && d->requests == 0;
}

struct deferral deferrals[DEFERRALS];

int deferred(uint64_t file, uint32_t handle)
{
	struct deferral *d = &deferrals[handle % DEFERRALS];
	uint32_t left;

	atomic_thread_fence(memory_order_seq_cst); /* after the request was put into the ring */
	if (atomic_load_explicit(&d->name, memory_order_acquire) != file + handle)
		return 0;
	left = atomic_load_explicit(&d->left, memory_order_relaxed);
	if (left == 0)
		return 0;
	atomic_store_explicit(&d->left, left - 1, memory_order_relaxed); /* another thread's may be lost: left is not exact */
	return 1;
}
