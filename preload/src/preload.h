/*
 * The library that "softrdma exec" preloads into a program. It only forwards
 * system calls on RDMA device files to the server in softrdma, and leads paths
 * of sysfs to the tree that the server writes. What a call means is the
 * server's to know: nothing here knows RDMA.
 *
 * It runs in other people's programs, inside of any call, in signal handlers
 * and behind fork: no lock is held across a call, nothing is allocated, and a
 * descriptor that is not ours costs a comparison.
 */
#ifndef SOFTRDMA_PRELOAD_H
#define SOFTRDMA_PRELOAD_H

#include <stdatomic.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

/* Messages on the server's socket, one per SOCK_SEQPACKET datagram. */
enum { OP_OPEN = 1, OP_IOCTL, OP_WRITE, OP_READ, OP_MMAP, OP_SYNC };

struct request {
	uint32_t version; /* PROTOCOL */
	uint32_t op;
	uint64_t file; /* what OPEN gave */
	uint64_t arg[4];
	char data[256]; /* OPEN: the path; WRITE: the first bytes of the buffer */
};

#define PROTOCOL 1
#define REQUEST_HEAD offsetof(struct request, data)
#define MAX_FDS 4

/* A descriptor that comes with the reply is stored at addr, where that is not 0. */
struct place {
	uint64_t addr;
	uint32_t width; /* bytes, 4 or 8 */
	uint32_t flags; /* O_CLOEXEC */
};

enum { REPLY_WAIT = 1 }; /* nothing there yet: repeat when the file is readable */

struct reply {
	int64_t result; /* of the call, or -errno */
	uint64_t file;
	uint64_t rdev;
	uint64_t offset; /* MMAP: where in the descriptor */
	uint32_t flags;
	uint32_t nplaces;
	struct place place[MAX_FDS];
};

/* What a descriptor is to us. */
struct entry {
	_Atomic uint64_t file; /* 0: not ours; FILE_SOCKET: to the server */
	uint64_t rdev;
};

#define FILE_SOCKET 1
#define TABLE (1 << 16)
extern struct entry table[TABLE];

static inline uint64_t ours(int fd)
{
	uint64_t f;

	if (fd < 0 || fd >= TABLE)
		return 0;
	f = atomic_load_explicit(&table[fd].file, memory_order_acquire);
	return f == FILE_SOCKET ? 0 : f;
}

/* path.c */
const char *redirect(const char *path, char *buf, size_t size);
const char *device_path(const char *path);
int device_number(const char *path, uint64_t *rdev);
void path_init(void);

/* server.c */
int64_t forward(int fd, const struct request *r, size_t len, struct reply *p, int *fds, int *nfds);
int64_t call(int fd, uint32_t op, uint64_t a, uint64_t b, uint64_t c, const void *data, size_t len);
int device_open(const char *path, int flags);
void forget(int fd);
void copied(int from, int to);
void server_init(void);

/* calls.c */
struct real {
	int (*open)(const char *, int, ...);
	int (*openat)(int, const char *, int, ...);
	int (*close)(int);
	int (*fcntl)(int, int, ...);
	int (*ioctl)(int, unsigned long, ...);
	ssize_t (*read)(int, void *, size_t);
	ssize_t (*write)(int, const void *, size_t);
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	int (*dup)(int);
	int (*dup2)(int, int);
	int (*dup3)(int, int, int);
};
const struct real *real(void);

#define EXPORT __attribute__((visibility("default")))
#define PATH_ROOM 512

/* The next library's function; threads that look for it find the same. */
void *next(const char *name);

#define NEXT(type, name) \
	static _Atomic(void *) at; \
	void *symbol = atomic_load_explicit(&at, memory_order_relaxed); \
	if (__builtin_expect(!symbol, 0)) { \
		symbol = next(name); \
		atomic_store_explicit(&at, symbol, memory_order_relaxed); \
	} \
	__typeof__(type) real_function = (__typeof__(type))symbol

#endif
