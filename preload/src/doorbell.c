/*
 * Omission of doorbells. The engine in this process says in memory which doorbells are not
 * needed.
 *
 * With the server in another process: if a program posts to one queue pair repeatedly, the
 * server polls the ring of that queue pair. A word in shared memory names the queue pair. The
 * server clears the word before it polls for the last time. So a program that finds the name
 * after it has put a request into the ring need not write the doorbell.
 */
#include "preload.h"

#include <string.h>
#include <sys/mman.h>

/* The word's page is mapped once and then replaced, never unmapped, because another thread may
 * be reading it. */
static _Atomic(_Atomic uint64_t *) poll_page;

/* Number of doorbells to omit before checking that the server still runs. */
#define TRUST 256
static __thread unsigned silent __attribute__((tls_model("initial-exec")));

/* poll_page_map maps the page that the server has sent. If that fails, the server polls a ring
 * without success. */
void poll_page_map(int memfd)
{
	_Atomic uint64_t *old = atomic_load_explicit(&poll_page, memory_order_acquire);
	void *at = real()->mmap(old, sizeof(*old), PROT_READ, MAP_SHARED | (old ? MAP_FIXED : 0), memfd, 0);

	if (at == MAP_FAILED || old)
		return;
	if (!atomic_compare_exchange_strong(&poll_page, &old, at))
		munmap(at, sizeof(*old)); /* another thread was faster */
}

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

int polled(int fd, const void *buf, size_t n)
{
	_Atomic uint64_t *word = atomic_load_explicit(&poll_page, memory_order_acquire);
	struct doorbell d;

	if (!word || !is_doorbell(buf, n, &d))
		return 0;
	atomic_thread_fence(memory_order_seq_cst); /* after the request was put into the ring */
	if (atomic_load_explicit(word, memory_order_acquire) != file_of(fd) + d.handle)
		return 0;
	return ++silent % TRUST || !device_gone(fd);
}
