/*
 * Doorbells that need not ring. A program that posts to one queue pair again
 * and again has the server look into that queue pair's ring by itself. The
 * server says so in a word of memory, and takes it back before it looks for the
 * last time: who finds the word after a request is in the ring need not write.
 */
#include "preload.h"

#include <string.h>
#include <sys/mman.h>

/* The word's memory is mapped once, and then replaced: it is never unmapped under a thread that looks. */
static _Atomic(_Atomic uint64_t *) board;

/* How many doorbells do not ring before the server is looked for. */
#define TRUST 256
static __thread unsigned silent __attribute__((tls_model("initial-exec")));

/* board_map maps what the server has sent. The server may then watch a queue pair in vain, where that fails. */
void board_map(int memfd)
{
	_Atomic uint64_t *old = atomic_load_explicit(&board, memory_order_acquire);
	void *at = real()->mmap(old, sizeof(*old), PROT_READ, MAP_SHARED | (old ? MAP_FIXED : 0), memfd, 0);

	if (at == MAP_FAILED || old)
		return;
	if (!atomic_compare_exchange_strong(&board, &old, at))
		munmap(at, sizeof(*old)); /* another thread was faster */
}

/* A doorbell is a command without requests of its own: they are in the ring. */
struct doorbell {
	uint32_t command;
	uint16_t in_words, out_words;
	uint64_t response;
	uint32_t handle, requests, entries, size;
};
#define POST_SEND 28

int watched(int fd, const void *buf, size_t n)
{
	_Atomic uint64_t *word = atomic_load_explicit(&board, memory_order_acquire);
	struct doorbell d;

	if (!word || n != sizeof(d))
		return 0;
	memcpy(&d, buf, sizeof(d));
	if (d.command != POST_SEND || d.requests)
		return 0;
	atomic_thread_fence(memory_order_seq_cst); /* after the request was put into the ring */
	if (atomic_load_explicit(word, memory_order_acquire) != file_of(fd) + d.handle)
		return 0;
	return ++silent % TRUST || !device_gone(fd);
}
