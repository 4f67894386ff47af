/*
 * What the preloaded library and the engine call of each other. The engine is a
 * library of its own, in Go: preload/engine. All functions return a negative
 * errno if they fail.
 */
#ifndef SOFTRDMA_ENGINE_H
#define SOFTRDMA_ENGINE_H

#include <stddef.h>
#include <stdint.h>

struct request;
struct reply;
struct deferral;

/*
 * start makes the engine, once. It tells in n deferrals which doorbells can be left
 * out. Verbose prints devices and refused calls to standard error.
 */
typedef void engine_start(struct deferral *d, size_t n, int verbose);

/*
 * open opens the device behind a device file ("uverbs0") of the server of a socket,
 * unless it is open. What has failed once fails again. The error's text is stored in
 * why, for the first call only.
 */
typedef int engine_open(const char *socket, const char *file, char *why, size_t room);

/* call carries out a request of len bytes. fds has room for MAX_FDS. */
typedef void engine_call(const struct request *r, size_t len, struct reply *p, int *fds, int *nfds);

/*
 * Descriptors plus 1 that a forked child closes: those by which it would keep the
 * address in use. Entries of 0 are free.
 */
enum { INHERITED = 1024 }; /* a device has three */
extern int32_t softrdma_engine_inherited[INHERITED];

/* doorbell sends what was posted to a queue pair. */
typedef int engine_doorbell(uint64_t file, uint32_t handle);

/* progress receives what may complete to a completion queue. After calls without success it may yield the processor. */
typedef int engine_progress(uint64_t file, uint32_t handle, int may_yield);

/* flush sends what polls have left to be sent later: the program calls the server. */
typedef void engine_flush(void);

/* poll receives whatever has arrived at the device of a file. */
typedef void engine_poll(uint64_t file);

/* attend leaves receiving to the own thread of the device of a file, until the next poll. */
typedef void engine_attend(uint64_t file);

/* leave sends what is owed to peers: the program ends. Its threads may call until it has. */
typedef void engine_leave(void);

#endif
