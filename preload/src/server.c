#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

struct entry table[TABLE];

/*
 * Connections to the server. Each call uses a free one, so that threads and signal handlers
 * never wait for each other.
 */
#define POOL 32
static struct {
	atomic_int busy;
	atomic_int fd; /* plus one; 0 means none */
} pool[POOL];

static struct sockaddr_un server;
static _Atomic socklen_t server_len;
/* The user of a server on demand. When it has ended, another user can take its place in the directory. */
static _Atomic int64_t owner = -1;

/* A child does not share connections with its parent. */
static void child(void)
{
	int i, fd;

	for (i = 0; i < POOL; i++) {
		fd = atomic_exchange(&pool[i].fd, 0) - 1;
		atomic_store(&pool[i].busy, 0);
		if (fd >= 0) {
			atomic_store(&table[fd].file, 0);
			real()->close(fd);
		}
	}
}

static void server_path(const char *path)
{
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof(server.sun_path) || strcmp(path, server.sun_path) == 0)
		return;
	server.sun_family = AF_UNIX;
	memcpy(server.sun_path, path, n + 1);
	server_len = sizeof(server);
}

void server_init(void)
{
	const char *s = getenv("SOFTRDMA_SOCKET");

	if (s)
		server_path(s);
	if (server_len || on_demand())
		after_fork(child);
}

const char *server_socket(void) { return server.sun_path; }

static void drop(int fd)
{
	if (fd < TABLE)
		atomic_store(&table[fd].file, 0);
	real()->close(fd);
}

static int connect_known(void)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	int fd, up;

	if (server_len == 0) {
		errno = ENODEV;
		return -1;
	}
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd >= 0 && fd <= 2) { /* what the program writes to standard error must not arrive there */
		up = real()->fcntl(fd, F_DUPFD_CLOEXEC, 3);
		real()->close(fd);
		fd = up;
	}
	if (fd < 0)
		return -1;
	if (fd >= TABLE || connect(fd, (struct sockaddr *)&server, server_len) < 0) {
		real()->close(fd);
		errno = ENODEV;
		return -1;
	}
	/* A process of another PID namespace, such as that of another container, has the number 0. */
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	if (owner >= 0 && (cred.uid != (uid_t)owner || cred.pid == 0)) {
		real()->close(fd);
		errno = ENODEV;
		return -1;
	}
	/* The server reads and writes this process's memory. */
	if (cred.pid)
		prctl(PR_SET_PTRACER, (unsigned long)cred.pid, 0, 0, 0);
	atomic_store(&table[fd].file, FILE_SOCKET);
	return fd;
}

int server_use(const char *socket, const char *tree)
{
	owner = geteuid();
	path_tree(tree); /* before the socket: a thread that finds the server reads the tree */
	server_path(socket);
	return connect_known();
}

/* connect_server connects to the server, which it may start. */
static int connect_server(void)
{
	int fd = connect_known();

	if (fd < 0 && errno == ENODEV && on_demand()) {
		fd = start_server();
		if (fd < 0)
			errno = ENODEV;
	}
	return fd;
}

/* take returns a connection and its slot in the pool, or -1. */
static int take(int *slot)
{
	int i, fd;

	for (i = 0; i < POOL; i++) {
		if (atomic_load_explicit(&pool[i].busy, memory_order_relaxed) || atomic_exchange(&pool[i].busy, 1))
			continue;
		fd = atomic_load(&pool[i].fd) - 1;
		if (fd < 0) {
			fd = connect_server();
			if (fd < 0) {
				atomic_store(&pool[i].busy, 0);
				return -1;
			}
			atomic_store(&pool[i].fd, fd + 1);
		}
		*slot = i;
		return fd;
	}
	*slot = -1;
	return connect_server();
}

static void give(int slot, int fd, int broken)
{
	if (slot < 0 || broken) {
		if (slot >= 0)
			atomic_store(&pool[slot].fd, 0);
		drop(fd);
	}
	if (slot >= 0)
		atomic_store(&pool[slot].busy, 0);
}

int server_need(void)
{
	int slot, sock, tries, dead = 1, err = errno;
	char c;

	if (!on_demand())
		return 1;
	for (tries = 0; tries < POOL; tries++) {
		sock = take(&slot);
		if (sock < 0)
			break;
		dead = recv(sock, &c, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN; /* the server has ended since */
		give(slot, sock, dead);
		if (!dead)
			break;
	}
	errno = err;
	return !dead;
}

static int receive(int sock, struct reply *p, int *fds, int *nfds)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} c;
	struct iovec iov = { p, sizeof(*p) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c) };
	struct cmsghdr *h;
	ssize_t n;

	*nfds = 0;
	do {
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR); /* the server answers at once */
	if (n < 0)
		return -EIO;
	for (h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		*nfds = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(h), (size_t)*nfds * sizeof(int));
	}
	/* The caller closes the descriptors, even those of an invalid reply. */
	if (n != (ssize_t)sizeof(*p))
		return -EIO;
	/* Descriptors that exceed this process's limit are lost. */
	return m.msg_flags & MSG_CTRUNC ? -EMFILE : 0;
}

static void close_all(const int *fds, int n)
{
	int i;

	for (i = 0; i < n; i++)
		real()->close(fds[i]);
}

/* exchange sends a request and receives the reply. It returns 0 or -errno. */
static int exchange(const struct request *r, size_t len, struct reply *p, int *fds, int *nfds)
{
	int slot, sock, tries, err;

	for (tries = 0;; tries++) {
		sock = take(&slot);
		if (sock < 0)
			return errno == ENODEV && r->file ? -EIO : -errno;
		err = send(sock, r, len, MSG_NOSIGNAL) == (ssize_t)len ? receive(sock, p, fds, nfds) : -EPIPE;
		give(slot, sock, err == -EIO || err == -EPIPE);
		/* The program has closed our descriptor, or the server on demand has just ended. */
		if (tries == 2 || !(err == -EPIPE || (err == -EIO && on_demand() && !r->file)))
			return err == -EPIPE ? -EIO : err;
		close_all(fds, *nfds);
	}
}

/*
 * wait_readable waits until the file behind a descriptor is readable, and returns 0 or -errno.
 * As in the kernel, a waiting call keeps its file open when another thread closes the
 * descriptor: held becomes a descriptor that the caller closes.
 */
static int wait_readable(int fd, uint64_t file, int *held)
{
	struct pollfd pf = { .events = POLLIN };

	if (*held < 0) {
		*held = real()->fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (ours(fd) != file) { /* closed already: only a signal ends the call */
			if (*held >= 0)
				real()->close(*held);
			*held = -1;
			poll(NULL, 0, -1);
			return -EINTR;
		}
	}
	pf.fd = *held < 0 ? fd : *held; /* there may be no descriptor left */
	if (real()->fcntl(pf.fd, F_GETFL) & O_NONBLOCK)
		return -EAGAIN;
	if (poll(&pf, 1, -1) < 0)
		return -errno;
	return pf.revents & (POLLERR | POLLHUP | POLLNVAL) ? -EIO : 0;
}

/*
 * forward sends one call to the server and returns its result, or -errno. Calls on a file fail
 * with EIO when the server is gone, as when the device is gone. errno is preserved, as by a
 * system call that succeeds.
 */
int64_t forward(int file, const struct request *r, size_t len, struct reply *p, int *fds, int *nfds)
{
	int err, before = errno, held = -1;

	*nfds = 0;
	if (file >= 0 && in_engine(file)) {
		err = engine_request(r, len, p, fds, nfds);
		return err < 0 ? err : p->result;
	}
	engine_before_server();
	for (;;) {
		err = exchange(r, len, p, fds, nfds);
		if (err < 0 || !(p->flags & REPLY_WAIT))
			break;
		close_all(fds, *nfds);
		*nfds = 0;
		err = wait_readable(file, r->file, &held);
		if (err < 0)
			break;
	}
	if (held >= 0)
		real()->close(held);
	if (err == 0 && p->result < 0)
		err = (int)p->result;
	if (err < 0) {
		close_all(fds, *nfds);
		*nfds = 0;
		/* The call may have reached the server after another thread closed the descriptor. */
		err = err == -EIO && file >= 0 && ours(file) != r->file ? -EBADF : err;
	}
	errno = before;
	return err < 0 ? err : p->result;
}

/* collapse moves memory to huge pages. */
static void collapse(uint64_t addr, uint64_t len)
{
	int err = errno;

	/* Not libc's function, because programs intercept it to detect removed memory. */
	syscall(SYS_madvise, addr, len, 25 /* MADV_COLLAPSE, of Linux 6.1 */);
	errno = err;
}

/* call forwards a call that may return descriptors, and sets errno. */
int64_t call(int fd, uint32_t op, uint64_t a, uint64_t b, uint64_t c, const void *data, size_t len)
{
	struct request r;
	struct reply p;
	int fds[MAX_FDS], n, i;
	int64_t got;

	r.version = PROTOCOL;
	r.op = op;
	r.file = ours(fd);
	r.arg[0] = a;
	r.arg[1] = b;
	r.arg[2] = c;
	r.arg[3] = 0;
	if (len > sizeof(r.data))
		len = sizeof(r.data);
	if (len)
		memcpy(r.data, data, len);
	got = forward(fd, &r, REQUEST_HEAD + len, &p, fds, &n);
	if (got < 0) {
		errno = (int)-got;
		return -1;
	}
	if (p.flags & REPLY_COLLAPSE)
		collapse(p.offset, p.rdev);
	for (i = 0; i < n; i++) {
		if ((uint32_t)i >= p.nplaces || p.place[i].addr == 0) {
			real()->close(fds[i]);
			continue;
		}
		if (!(p.place[i].flags & O_CLOEXEC))
			real()->fcntl(fds[i], F_SETFD, 0);
		if (fds[i] < TABLE && p.place[i].kind) {
			atomic_store(&table[fds[i]].told, 0);
			atomic_store(&table[fds[i]].engine, in_engine(fd));
			table[fds[i]].rdev = r.file;
			atomic_store(&table[fds[i]].file, p.place[i].kind);
		}
		if (p.place[i].width == 8)
			*(int64_t *)(uintptr_t)p.place[i].addr = fds[i];
		else
			*(int32_t *)(uintptr_t)p.place[i].addr = fds[i];
	}
	return got;
}

/* obtain sends a call to the engine or the server, and returns the descriptor from the reply,
 * or -1. */
static int obtain(struct request *r, size_t len, int cloexec, int nonblock, int inside, struct reply *p)
{
	int fds[MAX_FDS], n;
	int64_t got;

	r->version = PROTOCOL;
	if (inside) {
		got = engine_request(r, REQUEST_HEAD + len, p, fds, &n);
		got = got < 0 ? got : p->result;
	} else {
		got = forward(-1, r, REQUEST_HEAD + len, p, fds, &n);
	}
	if (got >= 0 && n != 1)
		got = -EIO;
	if (got >= 0 && fds[0] >= TABLE)
		got = -EMFILE;
	if (got < 0) {
		close_all(fds, n);
		errno = (int)-got;
		return -1;
	}
	if (!cloexec)
		real()->fcntl(fds[0], F_SETFD, 0);
	if (nonblock)
		real()->fcntl(fds[0], F_SETFL, O_NONBLOCK);
	return fds[0];
}

/*
 * waits waits a moment before an open is retried: a file issmN can be open only once at a
 * time, and the next program waits for its turn, unless it uses O_NONBLOCK.
 */
static int waits(const char *path, int flags)
{
	static const struct timespec moment = { .tv_nsec = 50 * 1000 * 1000 };

	if (errno != EAGAIN || flags & O_NONBLOCK || strncmp(path, "issm", 4) != 0)
		return 0;
	return nanosleep(&moment, NULL) == 0; /* or EINTR */
}

/* device_open opens a device file and returns its descriptor, or -1. */
int device_open(const char *path, int flags)
{
	struct request r;
	struct reply p;
	size_t len = strlen(path);
	int fd, inside = engine_use(path);

	if (len > sizeof(r.data) || inside < 0) {
		errno = inside < 0 ? -inside : ENOENT;
		return -1;
	}
	memset(&r, 0, REQUEST_HEAD);
	r.op = OP_OPEN;
	r.arg[0] = (uint64_t)flags;
	r.arg[1] = (uintptr_t)&r; /* lets the server check whether it can read our memory */
	memcpy(r.data, path, len);
	while ((fd = obtain(&r, len, flags & O_CLOEXEC, flags & O_NONBLOCK, inside, &p)) < 0)
		if (!waits(path, flags))
			return -1;
	table[fd].rdev = p.rdev;
	atomic_store(&table[fd].engine, inside);
	atomic_store(&table[fd].socket, p.flags & REPLY_SOCKET);
	atomic_store(&table[fd].owed, 0);
	atomic_store_explicit(&table[fd].file, p.file, memory_order_release);
	return fd;
}

void counters_refresh(void)
{
	struct request r;
	struct reply p;
	int fds[MAX_FDS], n;

	memset(&r, 0, REQUEST_HEAD);
	r.version = PROTOCOL;
	r.op = OP_COUNTERS;
	forward(-1, &r, REQUEST_HEAD, &p, fds, &n);
	close_all(fds, n);
}

/* netlink_open opens a socket of RDMA netlink and returns its descriptor, or -1. */
int netlink_open(int type)
{
	struct request r;
	struct reply p;
	int fd;

	memset(&r, 0, REQUEST_HEAD);
	r.op = OP_NETLINK;
	fd = obtain(&r, 0, type & SOCK_CLOEXEC, type & SOCK_NONBLOCK, 0, &p);
	if (fd < 0) {
		errno = EPROTONOSUPPORT; /* as without RDMA netlink: the libraries then read sysfs */
		return -1;
	}
	table[fd].rdev = 0;
	atomic_store_explicit(&table[fd].file, FILE_NETLINK, memory_order_release);
	return fd;
}

/* An asynchronous event as programs read it (ib_uverbs_async_event_desc). */
struct async_event {
	uint64_t element;
	uint32_t type, reserved;
};

#define DEVICE_FATAL 8 /* IBV_EVENT_DEVICE_FATAL */

/*
 * event_read implements read on an event descriptor. A server that ends in order sends an
 * event that reports the end of the device. If the server was killed, this function returns
 * that event, once. Later reads do not wait.
 */
ssize_t event_read(int fd, void *buf, size_t n)
{
	struct async_event e = { .type = DEVICE_FATAL };
	int own = table[fd].file == FILE_CHANNEL && table[fd].engine;
	ssize_t got = own ? engine_event(fd, buf, n) : real()->read(fd, buf, n);

	if (table[fd].file == FILE_ASYNC && n >= sizeof(e)) {
		if (got == (ssize_t)sizeof(e)) {
			memcpy(&e, buf, sizeof(e));
			if (e.type == DEVICE_FATAL)
				atomic_store(&table[fd].told, 1);
			return got;
		}
		if (got == 0 && !atomic_exchange(&table[fd].told, 1)) {
			memcpy(buf, &e, sizeof(e));
			return sizeof(e);
		}
	}
	if (got == 0 && n > 0) {
		errno = EIO;
		return -1;
	}
	return got;
}

/* MAD_HEADER is the length of the shorter header of a management datagram (ib_user_mad.h). */
#define MAD_HEADER 56

/*
 * socket_read reads a record. One for which there is no room stays: the caller gets EINVAL,
 * and none of the records that do not have to be asked for is longer than a request's data.
 */
ssize_t socket_read(int fd, void *buf, size_t n)
{
	char room[sizeof(((struct request *)0)->data)];
	char *to = n < sizeof(room) ? room : buf;
	int err = errno;
	ssize_t got;

	if (n < MAD_HEADER) {
		errno = EINVAL;
		return -1;
	}
	for (;;) {
		if (atomic_exchange(&table[fd].owed, 0))
			goto ask;
		got = recv(fd, to, sizeof(room), n < sizeof(room) ? MSG_PEEK : 0);
		if (got < 0)
			return -1;
		if (got == 0) {
			errno = EIO;
			return -1;
		}
		if (got > 1 && (size_t)got > n) {
			errno = EINVAL;
			return -1;
		}
		if (n < sizeof(room)) {
			got = recv(fd, room, sizeof(room), MSG_DONTWAIT);
			if (got <= 0)
				continue; /* another thread has read it */
			if ((size_t)got > n && got > 1) {
				errno = EINVAL; /* another thread has read it, and this is the next one */
				return -1;
			}
		}
		if (got > 1) {
			if (to == room)
				memcpy(buf, room, (size_t)got);
			return got;
		}
	ask:
		/* A call that fails here has not reached the server, which waits for it. */
		atomic_store(&table[fd].owed, 1);
		got = (ssize_t)call(fd, OP_READ, (uintptr_t)buf, n, 0, NULL, 0);
		if (got >= 0 || errno == EAGAIN || errno == EINVAL || errno == ENOSPC || errno == EFAULT)
			atomic_store(&table[fd].owed, 0);
		if (got >= 0 || errno != EAGAIN)
			return got;
		errno = err;
	}
}

/* forget is called by close: the descriptor is no longer ours. */
void forget(int fd)
{
	int i;

	if (fd < 0 || fd >= TABLE)
		return;
	if (atomic_exchange(&table[fd].file, 0) != FILE_SOCKET)
		return;
	for (i = 0; i < POOL; i++) {
		int want = fd + 1;

		if (atomic_compare_exchange_strong(&pool[i].fd, &want, 0))
			return;
	}
}

/* copied is called by dup: to refers to the same file as from. */
void copied(int from, int to)
{
	uint64_t f = file_of(from);

	if (to < 0 || to >= TABLE)
		return;
	if (f <= FILE_SOCKET) {
		if (atomic_load_explicit(&table[to].file, memory_order_relaxed))
			forget(to);
		return;
	}
	table[to].rdev = table[from].rdev;
	atomic_store(&table[to].told, atomic_load(&table[from].told));
	atomic_store(&table[to].engine, atomic_load(&table[from].engine));
	atomic_store(&table[to].socket, atomic_load(&table[from].socket));
	atomic_store(&table[to].owed, 0);
	atomic_store_explicit(&table[to].file, f, memory_order_release);
}
