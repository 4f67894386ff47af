/*
 * The functions that the library replaces. Each passes calls that do not
 * concern an RDMA device to the next library.
 */
#include "preload.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

static struct real found;
static atomic_int resolved;

void *next(const char *name)
{
	return loader()->symbol(RTLD_NEXT, name);
}

const struct real *real(void)
{
	if (__builtin_expect(!atomic_load_explicit(&resolved, memory_order_acquire), 0)) {
		found.open = next("open");
		found.openat = next("openat");
		found.close = next("close");
		found.fcntl = next("fcntl");
		found.ioctl = next("ioctl");
		found.read = next("read");
		found.write = next("write");
		found.mmap = next("mmap");
		found.dup = next("dup");
		found.dup2 = next("dup2");
		found.dup3 = next("dup3");
		atomic_store_explicit(&resolved, 1, memory_order_release);
	}
	return &found;
}

__attribute__((constructor)) static void init(int argc, char **argv)
{
	real();
	start_init();
	if (libc_unfit())
		return;
	path_init();
	server_init();
	engine_init(argv + argc + 1);
}

/* Opening. */

static int open_path(const char *path, int flags, mode_t mode)
{
	char buf[PATH_ROOM];
	const char *device = device_path(path);

	if (__builtin_expect(device != NULL, 0)) {
		int fd = device_open(device, flags);

		if (fd >= 0 || errno != ENOENT)
			return fd;
	}
	return real()->open(redirect(path, buf, sizeof(buf)), flags, mode);
}

static int wants_mode(int flags)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

#define MODE(flags, last) \
	mode_t mode = 0; \
	if (wants_mode(flags)) { \
		va_list ap; \
		va_start(ap, last); \
		mode = va_arg(ap, mode_t); \
		va_end(ap); \
	}

EXPORT int open(const char *path, int flags, ...)
{
	MODE(flags, flags);
	return open_path(path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
	MODE(flags, flags);
	return open_path(path, flags | O_LARGEFILE, mode);
}

EXPORT int __open_2(const char *path, int flags) { return open_path(path, flags, 0); }
EXPORT int __open64_2(const char *path, int flags) { return open_path(path, flags | O_LARGEFILE, 0); }

static int openat_path(int dir, const char *path, int flags, mode_t mode)
{
	if (path && path[0] == '/')
		return open_path(path, flags, mode);
	return real()->openat(dir, path, flags, mode);
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
	MODE(flags, flags);
	return openat_path(dir, path, flags, mode);
}

EXPORT int openat64(int dir, const char *path, int flags, ...)
{
	MODE(flags, flags);
	return openat_path(dir, path, flags | O_LARGEFILE, mode);
}

EXPORT int __openat_2(int dir, const char *path, int flags) { return openat_path(dir, path, flags, 0); }
EXPORT int __openat64_2(int dir, const char *path, int flags) { return openat_path(dir, path, flags, 0); }

EXPORT FILE *fopen(const char *path, const char *mode)
{
	char buf[PATH_ROOM];
	NEXT(FILE *(*)(const char *, const char *), "fopen");
	return real_function(redirect(path, buf, sizeof(buf)), mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
	char buf[PATH_ROOM];
	NEXT(FILE *(*)(const char *, const char *), "fopen64");
	return real_function(redirect(path, buf, sizeof(buf)), mode);
}

EXPORT DIR *opendir(const char *path)
{
	char buf[PATH_ROOM];
	NEXT(DIR *(*)(const char *), "opendir");
	return real_function(redirect(path, buf, sizeof(buf)));
}

EXPORT int scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
		   int (*compare)(const struct dirent **, const struct dirent **))
{
	char buf[PATH_ROOM];
	NEXT(int (*)(const char *, struct dirent ***, int (*)(const struct dirent *),
		     int (*)(const struct dirent **, const struct dirent **)), "scandir");
	return real_function(redirect(path, buf, sizeof(buf)), list, filter, compare);
}

EXPORT int chdir(const char *path)
{
	char buf[PATH_ROOM];
	NEXT(int (*)(const char *), "chdir");
	return real_function(redirect(path, buf, sizeof(buf)));
}

EXPORT int access(const char *path, int mode)
{
	char buf[PATH_ROOM];
	uint64_t rdev;
	NEXT(int (*)(const char *, int), "access");

	if (device_path(path) && device_number(path, &rdev) == 0)
		return 0;
	return real_function(redirect(path, buf, sizeof(buf)), mode);
}

EXPORT int faccessat(int dir, const char *path, int mode, int flags)
{
	char buf[PATH_ROOM];
	uint64_t rdev;
	NEXT(int (*)(int, const char *, int, int), "faccessat");

	if (device_path(path) && device_number(path, &rdev) == 0)
		return 0;
	return real_function(dir, redirect(path, buf, sizeof(buf)), mode, flags);
}

EXPORT ssize_t readlink(const char *path, char *to, size_t size)
{
	char buf[PATH_ROOM];
	NEXT(ssize_t (*)(const char *, char *, size_t), "readlink");
	return real_function(redirect(path, buf, sizeof(buf)), to, size);
}

/* Before glibc 2.36, dlsym finds the oldest version behind RTLD_NEXT, which refuses to allocate the result. */
static void *next_realpath(void)
{
	void *symbol = loader()->version(RTLD_NEXT, "realpath", "GLIBC_2.3");

	return symbol ? symbol : next("realpath"); /* arm64 has one version */
}

EXPORT char *realpath(const char *path, char *to)
{
	char buf[PATH_ROOM];
	NEXT_FROM(char *(*)(const char *, char *), next_realpath());
	return unredirect(real_function(redirect(path, buf, sizeof(buf)), to));
}

/* ls -l asks for attributes of each file. */
#define GETXATTR(name) \
	EXPORT ssize_t name(const char *path, const char *attribute, void *value, size_t size) \
	{ \
		char buf[PATH_ROOM]; \
		NEXT(ssize_t (*)(const char *, const char *, void *, size_t), #name); \
		return real_function(redirect(path, buf, sizeof(buf)), attribute, value, size); \
	}

GETXATTR(getxattr)
GETXATTR(lgetxattr)

/* Functions that programs call if they were compiled with _FORTIFY_SOURCE. */

EXPORT ssize_t __readlink_chk(const char *path, char *to, size_t size, size_t room)
{
	char buf[PATH_ROOM];
	NEXT(ssize_t (*)(const char *, char *, size_t, size_t), "__readlink_chk");
	return real_function(redirect(path, buf, sizeof(buf)), to, size, room);
}

EXPORT char *__realpath_chk(const char *path, char *to, size_t room)
{
	char buf[PATH_ROOM];
	NEXT(char *(*)(const char *, char *, size_t), "__realpath_chk");
	return unredirect(real_function(redirect(path, buf, sizeof(buf)), to, room));
}

/* Calls on a descriptor. */

EXPORT int ioctl(int fd, unsigned long command, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, command);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!ours(fd))
		return real()->ioctl(fd, command, arg);
	return (int)call(fd, OP_IOCTL, command, (uintptr_t)arg, 0, NULL, 0);
}

EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	ssize_t rung;

	if (!ours(fd))
		return real()->write(fd, buf, n);
	if (engine_rings(fd, buf, n, &rung))
		return rung;
	return (ssize_t)call(fd, OP_WRITE, (uintptr_t)buf, n, 0, buf, n);
}

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	uint64_t f = file_of(fd);

	if (f <= FILE_SOCKET || f == FILE_NETLINK)
		return real()->read(fd, buf, n);
	if (f < FILE_FIRST)
		return event_read(fd, buf, n);
	if (atomic_load_explicit(&table[fd].socket, memory_order_relaxed))
		return socket_read(fd, buf, n);
	return (ssize_t)call(fd, OP_READ, (uintptr_t)buf, n, 0, NULL, 0);
}

EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t room)
{
	if (n > room)
		abort();
	return read(fd, buf, n);
}

static void *map(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	struct request r;
	struct reply p;
	int fds[MAX_FDS], n, i, err;
	int64_t got;
	void *at;

	memset(&r, 0, REQUEST_HEAD);
	r.version = PROTOCOL;
	r.op = OP_MMAP;
	r.file = ours(fd);
	r.arg[0] = (uint64_t)off;
	r.arg[1] = len;
	r.arg[2] = (uint64_t)prot;
	r.arg[3] = (uint64_t)flags;
	got = forward(fd, &r, REQUEST_HEAD, &p, fds, &n);
	if (got >= 0 && n != 1)
		got = -EIO;
	if (got < 0) {
		for (i = 0; i < n; i++)
			real()->close(fds[i]);
		errno = (int)-got;
		return MAP_FAILED;
	}
	at = real()->mmap(addr, len, prot, flags, fds[0], (off_t)p.offset);
	err = errno;
	real()->close(fds[0]);
	errno = err;
	return at;
}

/*
 * Communication libraries (UCX, Open MPI) overwrite the first bytes of the
 * function that dlsym finds by this name with a jump, to observe memory being
 * mapped and unmapped, and then call the kernel themselves. These functions are
 * hidden versions of libc's symbols: programs are linked to them, and dlsym
 * does not find them.
 */
#if defined(__GLIBC__) && defined(__x86_64__)
#define MMAP_VERSION "GLIBC_2.2.5"
#elif defined(__GLIBC__) && (defined(__aarch64__) || defined(__powerpc64__))
#define MMAP_VERSION "GLIBC_2.17"
#elif defined(__GLIBC__) && defined(__riscv)
#define MMAP_VERSION "GLIBC_2.27"
#endif

#ifdef MMAP_VERSION
#define MMAP(name) softrdma_##name
__asm__(".symver softrdma_mmap, mmap@" MMAP_VERSION);
__asm__(".symver softrdma_mmap64, mmap64@" MMAP_VERSION);
#else
#define MMAP(name) name
#endif

EXPORT void *MMAP(mmap)(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	if (!ours(fd))
		return real()->mmap(addr, len, prot, flags, fd, off);
	return map(addr, len, prot, flags, fd, off);
}

EXPORT void *MMAP(mmap64)(void *addr, size_t len, int prot, int flags, int fd, off64_t off)
{
	return MMAP(mmap)(addr, len, prot, flags, fd, off);
}

EXPORT int close(int fd)
{
	uint64_t inside = 0;
	int result;

	/* Forget it first: after closing, another thread may get the number. */
	if (fd >= 0 && fd < TABLE && atomic_load_explicit(&table[fd].file, memory_order_relaxed)) {
		if (in_engine(fd))
			inside = ours(fd);
		forget(fd);
	}
	result = real()->close(fd);
	if (inside)
		engine_closed(inside);
	return result;
}

EXPORT int dup(int fd)
{
	int to = real()->dup(fd);

	if (to >= 0)
		copied(fd, to);
	return to;
}

EXPORT int dup2(int fd, int to)
{
	int got = real()->dup2(fd, to);

	if (got >= 0 && fd != to)
		copied(fd, got);
	return got;
}

EXPORT int dup3(int fd, int to, int flags)
{
	int got = real()->dup3(fd, to, flags);

	if (got >= 0)
		copied(fd, got);
	return got;
}

static int fcntl_any(int fd, int command, void *arg)
{
	int got = real()->fcntl(fd, command, arg);

	if (got >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC))
		copied(fd, got);
	return got;
}

EXPORT int fcntl(int fd, int command, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, command);
	arg = va_arg(ap, void *);
	va_end(ap);
	return fcntl_any(fd, command, arg);
}

EXPORT int fcntl64(int fd, int command, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, command);
	arg = va_arg(ap, void *);
	va_end(ap);
	return fcntl_any(fd, command, arg);
}
