/*
 * The engine in the program's own process: a library in Go, which is loaded when the program
 * opens the first uverbs device. It opens each device when the program opens the device's
 * first file. From then on calls on these files are function calls. If the engine or one of
 * its devices cannot be used, the files belong to the server.
 *
 * Go has its own threads and signal handlers. signals.c keeps both from the program. After
 * fork the child has no engine: files of its parent fail with EIO there, and files that it
 * opens belong to the server.
 */
#include "preload.h"
#include "engine.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { UNTRIED, READY, ABSENT, FORKED };

static struct {
	pthread_mutex_t lock;
	atomic_int state;
	char library[PATH_MAX]; /* empty if none is wanted */
	int required, verbose;
	engine_start *start;
	engine_open *open;
	engine_call *call;
	engine_doorbell *doorbell;
	engine_progress *progress;
	engine_flush *flush;
	engine_poll *poll;
	engine_attend *attend;
	engine_leave *leave;
	int32_t *inherited;
} engine = { .lock = PTHREAD_MUTEX_INITIALIZER };

/*
 * Go finds the system's values (auxv) after the first NULL in the list of environment
 * variables. A program may have put a NULL into it.
 */
static struct {
	char **list;
	size_t entries;
} environment;
static char no_entry[8];

/* fill puts entries where the program has put NULLs, and clear restores the NULLs. */
static void fill(void)
{
	size_t i;

	for (i = 0; i < environment.entries; i++)
		if (!environment.list[i])
			environment.list[i] = no_entry;
}

static void clear(void)
{
	size_t i;

	for (i = 0; i < environment.entries; i++)
		if (environment.list[i] == no_entry)
			environment.list[i] = NULL;
}

/* The depth of this thread's calls of the engine, and whether it has called before. */
static __thread int depth __attribute__((tls_model("initial-exec")));
static __thread int known __attribute__((tls_model("initial-exec")));

int engine_entered(void) { return depth; }

/* close_inherited closes descriptors that would keep the address in use when the parent has
 * ended. */
static void close_inherited(void)
{
	int i;

	for (i = 0; engine.inherited && i < INHERITED; i++)
		if (engine.inherited[i] > 0)
			syscall(SYS_close, engine.inherited[i] - 1);
	engine.inherited = NULL;
}

static void child(void)
{
	close_inherited();
	if (engine.state != UNTRIED)
		atomic_store(&engine.state, FORKED);
	signals_child();
	pthread_mutex_init(&engine.lock, NULL);
}

void engine_init(char **list)
{
	const char *s = getenv("SOFTRDMA_ENGINE");

	if (s && strlen(s) < sizeof(engine.library))
		strcpy(engine.library, s);
	for (environment.list = list; list[environment.entries]; environment.entries++)
		;
	s = getenv("SOFTRDMA_ENGINE_REQUIRED");
	engine.required = s && *s == '1';
	s = getenv("SOFTRDMA_ENGINE_VERBOSE");
	engine.verbose = s && *s == '1';
	sanitize_init();
	after_fork(child);
}

static void block_signals(sigset_t *old)
{
	sigset_t s;

	signals_blockable(&s);
	sigprocmask(SIG_BLOCK, &s, old);
}

/* Go adopts a thread at the thread's first call, until the thread ends. */
static void enter(sigset_t *old)
{
	block_signals(old);
	if (!known)
		signals_thread();
	known = 1;
}

/* Blocking system calls must not be interrupted either. */
#define SLEEPS handlers_some()
#define RUNS 0

#define IN_ENGINE(blocks, statement) \
	do { \
		sigset_t old; \
		int block = !known || signals_handled() || (blocks); \
		int before = errno; \
		if (__builtin_expect(block, 0)) \
			enter(&old); \
		depth++; \
		statement; \
		depth--; \
		if (__builtin_expect(block, 0)) \
			sigprocmask(SIG_SETMASK, &old, NULL); \
		handlers_resume(); \
		errno = before; \
	} while (0)

/* begin loads the engine. The error's text is stored in why. */
static int begin(char *why, size_t room)
{
	void *library;
	int err = engine_allowed(why, room);

	if (err)
		return err;
	signals_loading();
	library = loader()->open(engine.library, RTLD_NOW | RTLD_LOCAL);
	signals_loaded();
	if (library) {
		engine.start = (engine_start *)loader()->symbol(library, "softrdma_engine_start");
		engine.open = (engine_open *)loader()->symbol(library, "softrdma_engine_open");
		engine.call = (engine_call *)loader()->symbol(library, "softrdma_engine_call");
		engine.doorbell = (engine_doorbell *)loader()->symbol(library, "softrdma_engine_doorbell");
		engine.progress = (engine_progress *)loader()->symbol(library, "softrdma_engine_progress");
		engine.flush = (engine_flush *)loader()->symbol(library, "softrdma_engine_flush");
		engine.poll = (engine_poll *)loader()->symbol(library, "softrdma_engine_poll");
		engine.attend = (engine_attend *)loader()->symbol(library, "softrdma_engine_attend");
		engine.leave = (engine_leave *)loader()->symbol(library, "softrdma_engine_leave");
		engine.inherited = (int32_t *)loader()->symbol(library, "softrdma_engine_inherited");
	}
	if (!library || !engine.start || !engine.open || !engine.call || !engine.doorbell || !engine.progress || !engine.flush || !engine.poll || !engine.attend || !engine.leave || !engine.inherited) {
		snprintf(why, room, "%s", loader()->error());
		return -ELIBACC;
	}
	signals_engine((void *)engine.start);
	IN_ENGINE(SLEEPS, engine.start(deferrals, DEFERRALS, engine.verbose));
	IN_ENGINE(SLEEPS, err = sanitize_begin(library, why, room));
	return err;
}

/* refused prints why a device is not in this program, unless that was printed before. */
static void refused(const char *why)
{
	if (*why && (engine.verbose || engine.required))
		fprintf(stderr, "softrdma: the device %s in this program: %s\n", engine.required ? "cannot be" : "is not", why);
}

static int load(void)
{
	char why[512] = "";
	sigset_t old;
	int err;

	block_signals(&old);
	fill();
	err = begin(why, sizeof(why));
	clear();
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (err)
		refused(why);
	return err;
}

/* has reports whether the engine has the device of a file. */
static int has(const char *file)
{
	char why[512] = "";
	sigset_t old;
	int err;

	block_signals(&old);
	IN_ENGINE(SLEEPS, err = engine.open(server_socket(), file, why, sizeof(why)));
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (err)
		refused(why);
	return !err;
}

/* Matches device files of uverbs; those of the connection manager belong to the server. */
static int wanted(const char *file) { return *engine.library && strncmp(file, "uverbs", 6) == 0; }

int engine_use(const char *file)
{
	int state;

	if (!wanted(file))
		return 0;
	if (atomic_load(&engine.state) == UNTRIED) {
		pthread_mutex_lock(&engine.lock);
		if (atomic_load(&engine.state) == UNTRIED)
			atomic_store(&engine.state, load() == 0 ? READY : ABSENT);
		pthread_mutex_unlock(&engine.lock);
	}
	state = atomic_load(&engine.state);
	if (state == READY && has(file))
		return 1;
	return engine.required && state != FORKED ? -ENODEV : 0;
}

int engine_request(const struct request *r, size_t len, struct reply *p, int *fds, int *nfds)
{
	*nfds = 0;
	if (atomic_load_explicit(&engine.state, memory_order_acquire) != READY)
		return -EIO;
	sanitize_enter();
	IN_ENGINE(SLEEPS, engine.call(r, len, p, fds, nfds));
	sanitize_leave();
	return 0;
}

int engine_rings(int fd, const void *buf, size_t n, ssize_t *result)
{
	struct doorbell d;
	int err;

	if (!in_engine(fd) || !is_doorbell(buf, n, &d) || atomic_load_explicit(&engine.state, memory_order_acquire) != READY)
		return 0;
	*result = (ssize_t)n;
	if (deferred(file_of(fd), d.handle))
		return 1;
	sanitize_enter();
	IN_ENGINE(RUNS, err = engine.doorbell(file_of(fd), d.handle));
	sanitize_leave();
	if (err < 0) {
		errno = -err;
		*result = -1;
	}
	return 1;
}

void engine_closed(uint64_t file)
{
	struct request r = { .version = PROTOCOL, .op = OP_CLOSE, .file = file };
	struct reply p;
	int fds[MAX_FDS], n, fd;

	for (fd = 0; fd < TABLE; fd++)
		if (atomic_load_explicit(&table[fd].file, memory_order_relaxed) == file)
			return;
	/* The pipe would end the file too, but later: the program may reuse its memory now. */
	engine_request(&r, REQUEST_HEAD, &p, fds, &n);
}

int engine_receive(int fd, uint32_t cq, int may_yield)
{
	int err;

	if (atomic_load_explicit(&engine.state, memory_order_acquire) != READY)
		return -EIO;
	IN_ENGINE(RUNS, err = engine.progress(file_of(fd), cq, may_yield));
	return err;
}

void engine_before_server(void)
{
	if (atomic_load_explicit(&engine.state, memory_order_acquire) == READY && depth == 0)
		IN_ENGINE(RUNS, engine.flush());
}

/*
 * How long a thread that waits for an event spins before it sleeps. It spins longer after
 * a short sleep: if two programs wait for each other, one that sleeps answers after the
 * other has stopped spinning, and both would sleep each time from then on.
 * The package documentation of internal/waiting lists all calls that spin, this one among them.
 */
#define SPIN_NS 20000
#define LONGER_SPIN_NS 100000
static __thread int64_t longer_spin __attribute__((tls_model("initial-exec")));

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* spin polls the device of a file for its time, and reports whether an event of a channel came. */
static int spin(int fd, uint64_t file)
{
	struct pollfd pf = { .fd = fd, .events = POLLIN };
	int64_t began = now_ns();
	int found;

	while ((found = poll(&pf, 1, 0)) == 0 && now_ns() - began < SPIN_NS + longer_spin)
		IN_ENGINE(RUNS, engine.poll(file));
	longer_spin = 0;
	return found;
}

static ssize_t read_event(int fd, void *buf, size_t n, uint64_t file)
{
	ssize_t got;
	int64_t began;
	int old = errno;

	if (atomic_load_explicit(&engine.state, memory_order_acquire) != READY || depth > 0 || real()->fcntl(fd, F_GETFL) & O_NONBLOCK || spin(fd, file)) {
		errno = old;
		return real()->read(fd, buf, n);
	}
	IN_ENGINE(RUNS, engine.attend(file));
	errno = old;
	began = now_ns();
	got = real()->read(fd, buf, n);
	if (now_ns() - began < LONGER_SPIN_NS)
		longer_spin = LONGER_SPIN_NS;
	return got;
}

ssize_t engine_event(int fd, void *buf, size_t n)
{
	uint64_t file = table[fd].rdev;
	ssize_t got;

	if (!sanitize_on() || depth > 0 || atomic_load_explicit(&engine.state, memory_order_acquire) != READY)
		return read_event(fd, buf, n, file);
	if (!(real()->fcntl(fd, F_GETFL) & O_NONBLOCK))
		IN_ENGINE(RUNS, sanitize_waits(file, 0));
	got = read_event(fd, buf, n, file);
	if (got > 0)
		IN_ENGINE(RUNS, sanitize_waits(file, 1));
	return got;
}

void engine_posts(int fd, uint32_t handle, int receives)
{
	if (in_engine(fd) && depth == 0 && atomic_load_explicit(&engine.state, memory_order_acquire) == READY)
		IN_ENGINE(RUNS, sanitize_posted(file_of(fd), handle, receives));
}

/*
 * The devices stay for other threads, which run until the process has ended, and for the
 * destructors of other libraries.
 */
__attribute__((destructor)) static void end(void)
{
	/* A signal handler that exits may have interrupted this thread in the engine. */
	if (atomic_load(&engine.state) == READY && depth == 0)
		IN_ENGINE(SLEEPS, engine.leave());
}
