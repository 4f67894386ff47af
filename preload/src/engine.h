/*
 * The interface between the preloaded library and the engine. The engine is a library in Go:
 * preload/engine. All functions return a negative errno if they fail.
 */
#ifndef SOFTRDMA_ENGINE_H
#define SOFTRDMA_ENGINE_H

#include <stddef.h>
#include <stdint.h>

struct request;
struct reply;
struct deferral;

/*
 * start makes the engine, once. The engine says in n deferrals which doorbells can be omitted.
 * Verbose prints devices and refused calls to standard error.
 */
typedef void engine_start(struct deferral *d, size_t n, int verbose);

/*
 * open opens the device behind a device file ("uverbs0") of the server of a socket, unless it
 * is open. A failed open fails again. The error's text is stored in why, only for the first
 * call.
 */
typedef int engine_open(const char *socket, const char *file, char *why, size_t room);

/* call executes a request of len bytes. fds has room for MAX_FDS. */
typedef void engine_call(const struct request *r, size_t len, struct reply *p, int *fds, int *nfds);

/*
 * Descriptors plus 1 that a forked child closes, because they would keep the address in use. 0
 * marks a free entry.
 */
enum { INHERITED = 1024 }; /* a device has three */
extern int32_t softrdma_engine_inherited[INHERITED];

/* doorbell sends the requests posted to a queue pair. */
typedef int engine_doorbell(uint64_t file, uint32_t handle);

/* progress receives for a completion queue. After unsuccessful calls it may yield the
 * processor. */
typedef int engine_progress(uint64_t file, uint32_t handle, int may_yield);

/* flush sends what polls have deferred. It is called before a call to the server. */
typedef void engine_flush(void);

/* poll receives everything that has arrived at the device of a file. */
typedef void engine_poll(uint64_t file);

/* attend leaves receiving to the thread of a file's device, until the next poll. */
typedef void engine_attend(uint64_t file);

/*
 * position returns the return addresses of this thread's present call, innermost first, and their number: 0
 * if the thread is in none.
 */
typedef int engine_position(void ***addresses);

/*
 * sanitize lets the engine check how the program uses the devices that it opens from now on. Suppressions
 * and json are paths or empty. The error's text is stored in why.
 */
typedef int engine_sanitize(const char *rules, const char *suppressions, const char *json, engine_position *position, char *why, size_t room);

/* waits tells that the program is about to read an event of a channel of the file, or has taken one. */
typedef void engine_waits(uint64_t file, int took);

/*
 * posted tells that the program has posted receives to a queue pair or a shared receive queue, or requests to a
 * queue pair. It is called if the engine checks the program.
 */
typedef void engine_posted(uint64_t file, uint32_t handle, int receives);

/* leave sends what is owed to peers when the program ends. Its threads may call until it has
 * ended. */
typedef void engine_leave(void);

#endif
