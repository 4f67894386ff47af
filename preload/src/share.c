/*
 * Sharing memory with the server, if the user asks for it. A memfd replaces the whole pages of
 * a range and is passed to the server. Addresses and contents stay the same. This is done only
 * if the program cannot notice that pages are replaced: in a process with one thread, with
 * signals blocked, and in private anonymous memory to which only madvise was applied.
 * Otherwise the range stays as it is, and the server gets the reason.
 *
 * The list of ranges changes only while the process has one thread, so it needs no lock.
 */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#if UINTPTR_MAX == UINT64_MAX

#define NAME "softrdma-share"
#define HUGE ((uint64_t)2 << 20)
#define CHUNK ((size_t)16 << 20) /* bytes copied at a time, so that little memory is used twice */

static struct share {
	uint64_t id; /* the server's number, 0 until it is known */
	uintptr_t addr;
	size_t len;
	uint64_t ino, off; /* of the memfd, and the offset of addr in it */
} shares[1024];
static int nshares;
static int wanted;

/* System calls, because programs intercept libc's functions. */

static char *map_at(void *addr, size_t len, int flags, int fd, uint64_t off)
{
	return (char *)syscall(SYS_mmap, addr, len, PROT_READ | PROT_WRITE, flags, fd, off);
}

static int unmap(void *addr, size_t len) { return (int)syscall(SYS_munmap, addr, len); }
static int advise(void *addr, size_t len, int what) { return (int)syscall(SYS_madvise, addr, len, what); }

static char *move(void *from, size_t old, size_t len, int flags, void *to)
{
	return (char *)syscall(SYS_mremap, from, old, len, flags, to);
}

static int mapped(void *addr, size_t len) { return syscall(SYS_msync, addr, len, MS_ASYNC) == 0; }

/* A mapping, as in /proc/self/smaps. */

enum {
	DONTFORK = 1,
	DONTDUMP = 2,
	HUGEPAGE = 4,
	NOHUGEPAGE = 8,
	MERGEABLE = 16, /* may get lost */
	OTHER = 32, /* attributes that a new mapping would not have */
	KEPT = DONTFORK | DONTDUMP | HUGEPAGE | NOHUGEPAGE,
};

struct vma {
	uintptr_t start, end;
	uint64_t off, ino;
	char perms[5];
	char path[24]; /* start of the path */
	int flags;
};

struct smaps {
	int fd;
	size_t at, n;
	char buf[2048];
	char line[128]; /* start of a line: the first of the next mapping, if there is one */
};

static int next_line(struct smaps *s)
{
	size_t k = 0;
	ssize_t got;
	char c;

	for (;;) {
		if (s->at == s->n) {
			do {
				got = real()->read(s->fd, s->buf, sizeof(s->buf));
			} while (got < 0 && errno == EINTR);
			if (got <= 0)
				return 0;
			s->at = 0;
			s->n = (size_t)got;
		}
		c = s->buf[s->at++];
		if (c == '\n')
			break;
		if (k < sizeof(s->line) - 1)
			s->line[k++] = c;
	}
	s->line[k] = 0;
	return 1;
}

static int open_smaps(struct smaps *s)
{
	s->at = s->n = 0;
	s->fd = real()->open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
	if (s->fd < 0)
		return 0;
	if (next_line(s))
		return 1;
	real()->close(s->fd);
	return 0;
}

static int flags_of(const char *s)
{
	static const char known[] = "rd wr mr mw me ac nr sd sh ms dc dd hg nh mg";
	static const struct { char name[3]; int flag; } bits[] = {
		{ "dc", DONTFORK }, { "dd", DONTDUMP }, { "hg", HUGEPAGE }, { "nh", NOHUGEPAGE }, { "mg", MERGEABLE },
	};
	char two[3] = "";
	const char *k;
	size_t i;
	int flags = 0;

	for (; *s; s++) {
		if (*s == ' ')
			continue;
		two[0] = *s++;
		two[1] = *s;
		if (!*s)
			return OTHER;
		for (k = known; *k && memcmp(k, two, 2) != 0; k += k[2] ? 3 : 2)
			;
		if (!*k)
			return OTHER;
		for (i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
			if (memcmp(bits[i].name, two, 2) == 0)
				flags |= bits[i].flag;
	}
	return flags;
}

/* next_vma reads the next mapping and returns 0 after the last one. */
static int next_vma(struct smaps *s, struct vma *v)
{
	char *p = s->line;
	int i;

	if (!*p)
		return 0;
	v->start = strtoul(p, &p, 16);
	v->end = strtoul(p + (*p == '-'), &p, 16);
	for (i = 0; i < 4 && *++p; i++)
		v->perms[i] = *p;
	v->perms[i] = 0;
	v->off = strtoull(p + 1, &p, 16);
	strtoul(p, &p, 16);
	strtoul(p + (*p == ':'), &p, 16);
	v->ino = strtoull(p, &p, 10);
	while (*p == ' ')
		p++;
	strncpy(v->path, p, sizeof(v->path) - 1);
	v->path[sizeof(v->path) - 1] = 0;
	v->flags = OTHER;
	for (;;) {
		s->line[0] = 0;
		if (!next_line(s) || (s->line[0] >= '0' && s->line[0] <= '9') || (s->line[0] >= 'a' && s->line[0] <= 'f'))
			return 1;
		if (strncmp(s->line, "VmFlags:", 8) == 0)
			v->flags = flags_of(s->line + 8) | (v->flags & ~OTHER);
		else if (strncmp(s->line, "ProtectionKey:", 14) == 0 && strtoul(s->line + 14, NULL, 10) != 0)
			v->path[0] = '?';
	}
}

static int is_private(const struct vma *v)
{
	return strcmp(v->perms, "rw-p") == 0 && v->ino == 0 && !(v->flags & OTHER) &&
	       (!v->path[0] || strcmp(v->path, "[heap]") == 0 || strncmp(v->path, "[anon:", 6) == 0);
}

static int is_memfd(const struct vma *v)
{
	return strcmp(v->perms, "rw-s") == 0 && v->ino != 0 && strncmp(v->path, "/memfd:" NAME, sizeof("/memfd:" NAME) - 1) == 0;
}

/* The share that a mapping belongs to, if it is still in its place. */
static struct share *share_of(const struct vma *v)
{
	int i;

	for (i = 0; is_memfd(v) && i < nshares; i++)
		if (shares[i].ino == v->ino && v->off - shares[i].off == v->start - shares[i].addr)
			return &shares[i];
	return NULL;
}

/*
 * examine returns why a range cannot be replaced, or 0. With 0 the range is private memory, or
 * all of one share, which is stored in *of. *flags gets the advice that was applied to it.
 */
static int examine(uintptr_t addr, size_t len, struct share **of, int *flags)
{
	struct smaps s;
	struct vma v;
	uintptr_t at = addr;
	int why = 0;

	*of = NULL;
	if (!open_smaps(&s))
		return NOT_SYSTEM;
	while (next_vma(&s, &v)) {
		/* Ongoing operations of the kernel would still use the old pages. */
		if (strstr(v.path, "[io_uring]") || strncmp(v.path, "/[aio]", 6) == 0)
			why = NOT_IO;
		if (why || v.end <= at || at >= addr + len)
			continue;
		if (v.start > at || (at != addr && (*flags != (v.flags & KEPT) || *of != share_of(&v))))
			why = NOT_MAPPING;
		*flags = v.flags & KEPT;
		*of = share_of(&v);
		if ((!*of && !is_private(&v)) || (v.flags & OTHER))
			why = NOT_MAPPING;
		at = v.end;
	}
	real()->close(s.fd);
	if (!why && at < addr + len)
		why = NOT_MAPPING;
	return why;
}

/* present reports whether any page of a share is mapped. */
static int present(const struct share *e)
{
	struct smaps s;
	struct vma v;
	int found = 0;

	if (!open_smaps(&s))
		return 1;
	while (!found && next_vma(&s, &v))
		found = v.ino == e->ino && strncmp(v.path, "/memfd:", 7) == 0;
	real()->close(s.fd);
	return found;
}

static int one_thread(void)
{
	struct stat st;

	return stat("/proc/self/task", &st) == 0 && st.st_nlink == 3; /* ".", ".." and each thread */
}

static void set_mask(const uint64_t *mask, uint64_t *old)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, old, sizeof(*mask));
}

/* keep applies the old memory's advice to the new. */
static void keep(void *addr, size_t len, int flags)
{
	if (flags & DONTFORK)
		advise(addr, len, MADV_DONTFORK);
	if (flags & DONTDUMP)
		advise(addr, len, MADV_DONTDUMP);
	if (flags & HUGEPAGE)
		advise(addr, len, MADV_HUGEPAGE);
	if (flags & NOHUGEPAGE)
		advise(addr, len, MADV_NOHUGEPAGE);
}

static int blank(const char *page, size_t n)
{
	const uint64_t *p = (const uint64_t *)page, *end = (const uint64_t *)(page + n);

	while (p < end && !*p)
		p++;
	return p == end;
}

/* fill copies memory to new memory, whose pages are allocated when they are touched. */
static void fill(char *to, const char *from, size_t n)
{
	size_t i, page = (size_t)getpagesize();

	for (i = 0; i < n; i += page)
		if (!blank(from + i, page))
			memcpy(to + i, from + i, page);
}

/*
 * restore replaces a share by private memory, with signals blocked. It reports whether that
 * succeeded; if only a part was replaced, the share is the rest.
 */
static int restore(struct share *e, int flags)
{
	char *addr, *t = move((void *)e->addr, 0, e->len, MREMAP_MAYMOVE, NULL); /* maps the same pages again */
	size_t n, whole = e->len;

	if (t == MAP_FAILED)
		return 0;
	while (e->len) {
		addr = (char *)e->addr;
		n = e->len < CHUNK ? e->len : CHUNK;
		if (map_at(addr, n, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
			if (!mapped(addr, n) && move(t, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, addr) == MAP_FAILED)
				abort(); /* the program's data would be lost */
			break;
		}
		keep(addr, n, flags);
		fill(addr, t, n);
		if (whole > CHUNK)
			advise(t, n, MADV_REMOVE);
		unmap(t, n);
		t += n;
		e->addr += n;
		e->off += n;
		e->len -= n;
	}
	unmap(t, e->len);
	return e->len == 0;
}

/* replace replaces private memory by the memfd, with signals blocked. */
static int replace(struct share *e, int fd, int flags)
{
	char *t = map_at(NULL, e->len, MAP_SHARED, fd, e->off), *addr;
	struct share part = *e;
	size_t n, done;

	if (t == MAP_FAILED)
		return 0;
	keep(t, e->len, flags);
	for (done = 0; done < e->len; done += n) {
		addr = (char *)e->addr + done;
		n = e->len - done < CHUNK ? e->len - done : CHUNK;
		fill(t + done, addr, n);
		if (move(t + done, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, addr) != MAP_FAILED)
			continue;
		if (map_at(addr, n, MAP_SHARED | MAP_FIXED, fd, e->off + done) != MAP_FAILED) {
			keep(addr, n, flags);
			unmap(t + done, n);
			continue;
		}
		if (!mapped(addr, n))
			abort(); /* the program's data would be lost */
		unmap(t + done, e->len - done);
		part.len = done;
		if (done && !restore(&part, flags)) {
			part.id = 0; /* not shared with the server */
			shares[nshares++] = part;
		}
		return 0;
	}
	return 1;
}

/* create makes a memfd for a range. The memfd cannot be truncated. */
static int create(uint64_t size, uint64_t *ino)
{
	struct rlimit limit;
	struct stat st;
	int fd;

	/* Beyond the limit a signal would end the program. */
	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < size))
		return -1;
	fd = (int)syscall(SYS_memfd_create, NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	if (syscall(SYS_ftruncate, fd, size) < 0 || fstat(fd, &st) < 0 ||
	    real()->fcntl(fd, F_ADD_SEALS, (void *)(long)(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) < 0) {
		real()->close(fd);
		return -1;
	}
	*ino = st.st_ino;
	return fd;
}

static int within(uintptr_t x, uintptr_t addr, size_t len) { return x - addr < len; }

/* share_begin: see preload.h. */
int share_begin(uintptr_t addr, size_t len, uint64_t *arg)
{
	uint64_t all = ~(uint64_t)0, old, page = (uint64_t)getpagesize();
	struct share *of, e = { .addr = addr, .len = len, .off = addr & (HUGE - 1) };
	int why = 0, flags = 0, fd = -1, err = errno;

	set_mask(&all, &old);
	if (!wanted || len == 0 || (addr | len) & (page - 1) || nshares >= (int)(sizeof(shares) / sizeof(shares[0])) - 1)
		why = NOT_SYSTEM;
	else if (within((uintptr_t)&e, addr, len))
		why = NOT_MAPPING; /* it contains the current stack */
	else
		why = examine(addr, len, &of, &flags);
	if (!why && of) {
		arg[0] = of->id ? SHARE_KNOWN : SHARE_NOT;
		arg[1] = of->id ? of->id : NOT_MAPPING;
	} else {
		if (!why && !one_thread())
			why = NOT_THREADS;
		if (!why && (fd = create(e.off + len, &e.ino)) < 0)
			why = NOT_SYSTEM;
		if (!why && !replace(&e, fd, flags)) {
			why = NOT_SYSTEM;
			real()->close(fd);
			fd = -1;
		}
		if (!why)
			shares[nshares++] = e;
		arg[0] = why ? SHARE_NOT : SHARE_MEMFD;
		arg[1] = why ? (uint64_t)why : e.off;
	}
	set_mask(&old, NULL);
	errno = err;
	return fd;
}

/* undo restores private memory if possible, and forgets the share. */
static void undo(struct share *e)
{
	uint64_t all = ~(uint64_t)0, old;
	struct share *of;
	int flags = 0, err = errno;

	set_mask(&all, &old);
	e->id = 0;
	if (one_thread() && (!present(e) || (examine(e->addr, e->len, &of, &flags) == 0 && of == e && restore(e, flags))))
		*e = shares[--nshares];
	set_mask(&old, NULL);
	errno = err;
}

/* share_end: see preload.h. */
void share_end(uint64_t id)
{
	if (id && nshares)
		shares[nshares - 1].id = id;
	else if (nshares)
		undo(&shares[nshares - 1]);
}

/* share_undo: see preload.h. */
void share_undo(uint64_t id)
{
	int i;

	for (i = 0; i < nshares; i++)
		if (shares[i].id == id) {
			undo(&shares[i]);
			return;
		}
}

/*
 * Fork. A child gets copies of shared memory. They are made before the fork, so that the child
 * need not wait, and are preceded by a page that says where they belong.
 */
struct copy {
	struct copy *next;
	uintptr_t addr;
	size_t len;
};
static __thread struct copy *copies __attribute__((tls_model("initial-exec")));

static void copy_one(const struct vma *v)
{
	size_t page = (size_t)getpagesize(), len = v->end - v->start;
	char *t = move((void *)v->start, 0, len, MREMAP_MAYMOVE, NULL), *c = MAP_FAILED; /* which stays mapped */

	if (t != MAP_FAILED)
		c = map_at(NULL, page + len, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c == MAP_FAILED) {
		advise((void *)v->start, len, MADV_DONTFORK); /* better no memory than the parent's */
	} else {
		*(struct copy *)c = (struct copy){ copies, v->start, len };
		copies = (struct copy *)c;
		keep(c + page, len, v->flags & KEPT);
		fill(c + page, t, len);
	}
	if (t != MAP_FAILED)
		unmap(t, len);
}

static void before_fork(void)
{
	struct smaps s;
	struct vma v;
	int i;

	copies = NULL;
	if (!nshares)
		return;
	if (!open_smaps(&s)) { /* as if there were no memory for a copy */
		for (i = 0; i < nshares; i++)
			advise((void *)shares[i].addr, shares[i].len, MADV_DONTFORK);
		return;
	}
	while (next_vma(&s, &v))
		if (is_memfd(&v) && !(v.flags & DONTFORK))
			copy_one(&v);
	real()->close(s.fd);
}

static void after_fork(int in_child)
{
	size_t page = (size_t)getpagesize(), len;
	struct copy *c;

	while ((c = copies)) {
		copies = c->next;
		len = c->len;
		if (in_child && move((char *)c + page, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)c->addr) != MAP_FAILED)
			len = 0;
		unmap(c, page + len);
	}
}

static void after_fork_parent(void) { after_fork(0); }

static void after_fork_child(void)
{
	after_fork(1);
	nshares = 0;
}

void share_init(void)
{
	const char *s = getenv("SOFTRDMA_SHARE_MEMORY");

	wanted = s && strcmp(s, "1") == 0;
	if (wanted)
		pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

uint64_t share_offer(void) { return wanted ? SHARE_OFFERED : 0; }

#else /* 32-bit programs share no memory */

void share_init(void) {}
uint64_t share_offer(void) { return 0; }
void share_end(uint64_t id) { (void)id; }
void share_undo(uint64_t id) { (void)id; }

int share_begin(uintptr_t addr, size_t len, uint64_t *arg)
{
	(void)addr;
	(void)len;
	arg[0] = SHARE_NOT;
	arg[1] = NOT_SYSTEM;
	return -1;
}

#endif
