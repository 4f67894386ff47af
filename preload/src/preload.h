/*
 * The library that "softrdma exec" preloads into a program. It forwards system calls on RDMA
 * device files to the server in softrdma, and redirects paths of sysfs to the tree that the
 * server writes. It knows no RDMA: only the server interprets calls.
 *
 * It runs in other people's programs, inside any call, in signal handlers and after fork. So
 * no lock is held across a call, nothing is allocated, and a call on a foreign descriptor
 * costs one comparison.
 */
#ifndef SOFTRDMA_PRELOAD_H
#define SOFTRDMA_PRELOAD_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

/* Messages on the server's socket, one per SOCK_SEQPACKET datagram. */
enum { OP_OPEN = 1, OP_IOCTL, OP_WRITE, OP_READ, OP_MMAP, OP_CLOSE = 7, OP_NETLINK, OP_COUNTERS = 10 };

struct request {
	uint32_t version; /* PROTOCOL */
	uint32_t op;
	uint64_t file; /* result of OPEN */
	uint64_t arg[4];
	char data[320]; /* OPEN: the path; WRITE: the first bytes of the buffer */
};

#define PROTOCOL 7
#define REQUEST_HEAD offsetof(struct request, data)
#define MAX_FDS 4

/* A descriptor that comes with the reply is stored at addr, unless that is 0. */
struct place {
	uint64_t addr;
	uint32_t width; /* bytes, 4 or 8 */
	uint32_t flags; /* O_CLOEXEC */
	uint32_t kind; /* FILE_ASYNC, FILE_CHANNEL or 0 */
	uint32_t reserved;
};

enum {
	REPLY_WAIT = 1, /* no data yet: repeat when the file is readable */
	REPLY_COLLAPSE = 2, /* move rdev bytes of memory from offset on to huge pages, if possible */
	REPLY_SOCKET = 4, /* the file is a socket to read from: a record of 1 byte asks for a READ */
};

struct reply {
	int64_t result; /* of the call, or -errno */
	uint64_t file;
	uint64_t rdev;
	uint64_t offset; /* MMAP: offset in the descriptor; REPLY_COLLAPSE: start */
	uint32_t flags;
	uint32_t nplaces;
	struct place place[MAX_FDS];
};

/* The state of a descriptor. */
struct entry {
	_Atomic uint64_t file; /* 0: not ours; one of FILE_; or the result of OPEN */
	uint64_t rdev; /* FILE_NETLINK: the port id; FILE_ASYNC, FILE_CHANNEL: result of OPEN of their device file */
	atomic_int told; /* FILE_ASYNC: the end of the device was reported */
	atomic_int engine; /* a file of the engine in this process, not of the server */
	atomic_int socket; /* REPLY_SOCKET */
	atomic_int owed; /* a record asked for a READ that the server has not answered */
};

enum {
	FILE_SOCKET = 1, /* to the server */
	FILE_ASYNC, /* asynchronous events */
	FILE_CHANNEL, /* completion events */
	FILE_NETLINK, /* RDMA's netlink */
	FILE_FIRST = 16, /* results of OPEN are not lower */
};
#define TABLE (1 << 16)
extern struct entry table[TABLE];

static inline uint64_t file_of(int fd)
{
	if (fd < 0 || fd >= TABLE)
		return 0;
	return atomic_load_explicit(&table[fd].file, memory_order_acquire);
}

/* ours returns the device file behind a descriptor, or 0. */
static inline uint64_t ours(int fd)
{
	uint64_t f = file_of(fd);

	return f < FILE_FIRST ? 0 : f;
}

/* in_engine reports whether a descriptor belongs to a device file of the engine in this
 * process. */
static inline int in_engine(int fd)
{
	return ours(fd) && atomic_load_explicit(&table[fd].engine, memory_order_relaxed);
}

/*
 * Settings from the environment are read when the library is loaded, and copied. A program may
 * change its environment, and write its title over that memory.
 */

/* engine.c */

/* engine_init gets the list of environment variables that the system has made for the program. */
void engine_init(char **environment);

/* engine_use reports whether to open a device file in the engine; -errno if it must be but
 * cannot. */
int engine_use(const char *file);

/* engine_request executes a request on a file of the engine. */
int engine_request(const struct request *r, size_t len, struct reply *p, int *fds, int *nfds);

/* engine_rings executes a write that is a doorbell of the engine, and reports whether it was
 * one. */
int engine_rings(int fd, const void *buf, size_t n, ssize_t *result);

/* engine_closed closes a file of the engine, unless another descriptor refers to it. */
void engine_closed(uint64_t file);

/* engine_before_server lets the engine finish work that it deferred to the program's next
 * poll. */
void engine_before_server(void);

/*
 * engine_receive receives for a completion queue of the engine. It may yield the processor
 * after unsuccessful calls, if allowed.
 */
int engine_receive(int fd, uint32_t cq, int may_yield);

/*
 * engine_event implements read on a completion channel of the engine. It receives on this
 * thread for a moment before it sleeps. An event that arrives then needs no other thread.
 */
ssize_t engine_event(int fd, void *buf, size_t n);

/* engine_posts tells the engine, for the sanitizer, that the program has posted to a queue. */
void engine_posts(int fd, uint32_t handle, int receives);

/* sanitize_init reads the environment. */
void sanitize_init(void);

/* sanitize_begin lets an engine check the program if the environment wants that. */
int sanitize_begin(void *library, char *why, size_t room);

/* sanitize_on reports whether the engine checks the program. */
int sanitize_on(void);

/* sanitize_enter notes the position of a call of the program, and sanitize_leave forgets it. */
void sanitize_enter(void);
void sanitize_leave(void);

/* sanitize_waits tells the engine that the program reads an event of a file, or has taken one. */
void sanitize_waits(uint64_t file, int took);

/* sanitize_posted tells the engine that the program has posted to a queue of a file: receives, or requests of a
 * queue pair. */
void sanitize_posted(uint64_t file, uint32_t handle, int receives);

/* engine_entered reports whether this thread is in the engine. */
int engine_entered(void);

/* allowed.c */

/* engine_allowed returns 0 if the engine can be loaded, or -errno and why not. */
int engine_allowed(char *why, size_t room);

/* signals.c */
#define KERNEL_SIGSET 8 /* size in bytes of the kernel's signal set */
void signals_loading(void);
void signals_loaded(void);
void signals_engine(void *function);
void signals_child(void);
void signals_thread(void);
void signals_blockable(sigset_t *s);

/* signals_handled reports whether calls of the engine have to block signals. */
int signals_handled(void);
void signals_note(int sig, void (*handler)(int));

/* handlers.c */
typedef int sigaction_function(int sig, const struct sigaction *to, struct sigaction *old);

/* handlers_wait reports whether handlers_set can postpone a handler. */
int handlers_wait(int sig, const struct sigaction *a);

/* handlers_set implements sigaction with a function that sets the kernel's action. The handler
 * is postponed while its thread is in the engine. */
int handlers_set(sigaction_function *set, int sig, const struct sigaction *to, struct sigaction *old);

/* handlers_asked returns the program's action if the kernel calls h. */
void (*handlers_asked(int sig, void (*h)(int)))(int);

/* handlers_some reports whether there have been postponable handlers. */
int handlers_some(void);

/* handlers_resume runs postponed handlers. */
void handlers_resume(void);
void handlers_child(void);

/* path.c */
const char *redirect(const char *path, char *buf, size_t size);
char *unredirect(char *path);

/* path_tree sets the path of the server's tree. */
void path_tree(const char *path);
const char *device_path(const char *path);
int device_number(const char *path, uint64_t *rdev);

/* has_devices reports whether the server has devices. */
int has_devices(void);
void path_init(void);

/* server.c */
int64_t forward(int fd, const struct request *r, size_t len, struct reply *p, int *fds, int *nfds);
int64_t call(int fd, uint32_t op, uint64_t a, uint64_t b, uint64_t c, const void *data, size_t len);
int device_open(const char *path, int flags);

/* counters_refresh makes the server update the counters of its tree. */
void counters_refresh(void);
int netlink_open(int type);
ssize_t event_read(int fd, void *buf, size_t n);

/* socket_read is read on a device file that is a socket. */
ssize_t socket_read(int fd, void *buf, size_t n);
void forget(int fd);

/* server_need makes sure that there is a server, if it is started on demand. */
int server_need(void);

/* server_use connects to the server of a socket and a tree, and uses both from then on. It returns a
 * descriptor, or -1. */
int server_use(const char *socket, const char *tree);

/* server_socket returns the path of the server's socket, or "" if there is no server. */
const char *server_socket(void);
void copied(int from, int to);
void server_init(void);

/* start.c */
void start_init(void);

/* on_demand reports whether this library starts the server, or joins it. */
int on_demand(void);

/* start_server does so, and returns a connection, or -1. */
int start_server(void);

/* doorbell.c */

/* A doorbell is a command without requests, which are already in the ring. */
struct doorbell {
	uint32_t command;
	uint16_t in_words, out_words;
	uint64_t response;
	uint32_t handle, requests, entries, size;
};

/* is_doorbell parses a write that is a doorbell, and reports whether it is one. */
int is_doorbell(const void *buf, size_t n, struct doorbell *d);

/*
 * Says which doorbells of a queue pair the engine does not need: those of the name, left
 * times. A queue pair's name is its file's number plus its handle, and its place is its handle
 * modulo DEFERRALS. See internal/adapter/deferral.
 */
struct deferral {
	_Alignas(64) _Atomic uint64_t name;
	_Atomic uint32_t left;
};

#define DEFERRALS 256
extern struct deferral deferrals[DEFERRALS];

/* deferred reports whether the engine does not need a doorbell. */
int deferred(uint64_t file, uint32_t handle);

/* poll.c */
int device_gone(int fd);

/* libibverbs returns a function of libibverbs. If that was loaded by dlopen, next does not
 * find it. */
void *libibverbs(const char *name);

/* libc.c */

/* The functions by which a program loads libraries. They are null where the C library has none. */
struct loader {
	void *(*open)(const char *, int);
	void *(*symbol)(void *, const char *);
	void *(*version)(void *, const char *, const char *);
	char *(*error)(void);
};
const struct loader *loader(void);

/* libc_unfit returns why programs with this C library cannot have a device, or NULL. */
const char *libc_unfit(void);

/* after_fork makes children of fork call a function. */
void after_fork(void (*child)(void));

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

/* next returns the next library's function. Concurrent lookups find the same one. */
void *next(const char *name);

#define NEXT(type, name) NEXT_FROM(type, next(name))

/* NEXT_FROM looks a function up in another way. */
#define NEXT_FROM(type, lookup) \
	static _Atomic(void *) at; \
	void *symbol = atomic_load_explicit(&at, memory_order_relaxed); \
	if (__builtin_expect(!symbol, 0)) { \
		symbol = (lookup); \
		atomic_store_explicit(&at, symbol, memory_order_relaxed); \
	} \
	__typeof__(type) real_function = (__typeof__(type))symbol

#endif
