/*
 * Checks whether this process permits the engine. Go ends a process that refuses it memory or
 * threads, so this is checked before Go is loaded.
 */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Go reserves this much address space, but uses little of it. */
#define ADDRESSES (2ULL << 30)

/*
 * The system calls that the engine needs, with arguments that the system refuses or
 * that change nothing.
 */
#define NEED(name, ...) { #name, SYS_##name, { __VA_ARGS__ } }
static const struct {
	const char *name;
	long number;
	long args[5];
} needs[] = {
	NEED(clone, CLONE_THREAD), NEED(sigaltstack, 0, 0), NEED(tgkill, -1, -1, 0), NEED(gettid, 0),
	NEED(sched_yield, 0), NEED(sched_getaffinity, 0, 0, 0), NEED(nanosleep, 0, 0), NEED(getrandom, 0, 0, 0),
	NEED(prlimit64, 0, -1, 0, 0), NEED(madvise, 0, 0, 0), NEED(mincore, 0, 0, 0), NEED(memfd_create, 0, -1),
	NEED(pipe2, 0, -1), NEED(fcntl, -1, F_GETFL), NEED(openat, -1, 0, 0), NEED(pread64, -1, 0, 0, 0),
	NEED(epoll_create1, -1), NEED(epoll_ctl, -1, 0, 0, 0), NEED(epoll_pwait, -1, 0, 0, 0, 0), NEED(eventfd2, 0, -1),
	NEED(ppoll, 0, 1, 0, 0, 0), NEED(socket, AF_INET, SOCK_DGRAM, 0), NEED(socket, AF_UNIX, SOCK_SEQPACKET, 0),
	NEED(socketpair, -1, 0, 0, 0), NEED(bind, -1, 0, 0), NEED(connect, -1, 0, 0), NEED(getsockname, -1, 0, 0),
	NEED(setsockopt, -1, 0, 0, 0, 0), NEED(getsockopt, -1, 0, 0, 0, 0), NEED(sendmsg, -1, 0, 0), NEED(recvmsg, -1, 0, 0),
	NEED(sendmmsg, -1, 0, 0, 0), NEED(recvmmsg, -1, 0, 0, 0, 0), NEED(sendto, -1, 0, 0, 0, 0), NEED(recvfrom, -1, 0, 0, 0, 0),
};
enum { NEEDS = sizeof(needs) / sizeof(needs[0]) };

/* try_all makes the calls in a child process. now is the current one. */
static void try_all(volatile int *now)
{
	const long *a;

	for (*now = 0; *now < NEEDS; (*now)++) {
		a = needs[*now].args;
		if (syscall(needs[*now].number, a[0], a[1], a[2], a[3], a[4]) < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS))
			_exit(1);
	}
	_exit(0);
}

/*
 * filtered returns the system call that the program's seccomp filter denies, or NULL. It
 * tries the calls in a child process, because a filter may kill the caller. The child
 * sends no SIGCHLD when it ends.
 */
static const char *filtered(void)
{
	int *now, status = 0, failed = 0;
	pid_t pid;

	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2)
		return NULL;
	now = real()->mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (now == MAP_FAILED)
		return "mmap";
	pid = (pid_t)syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L); /* fork without a signal to the parent, or handlers */
	if (pid == 0)
		try_all(now);
	while (pid > 0 && waitpid(pid, &status, __WCLONE) < 0 && errno == EINTR)
		;
	if (pid < 0)
		*now = 0; /* the first call */
	failed = pid < 0 || status != 0 ? *now : NEEDS;
	munmap(now, sizeof(int));
	return failed < NEEDS ? needs[failed].name : NULL;
}

/* addresses_used returns the size of the process's address space in bytes. */
static unsigned long long addresses_used(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return 0;
	if (fscanf(f, "%llu", &pages) != 1)
		pages = 0;
	fclose(f);
	return pages * (unsigned long long)sysconf(_SC_PAGESIZE);
}

int engine_allowed(char *why, size_t room)
{
	const char *name;
	struct rlimit l;

	if (getrlimit(RLIMIT_AS, &l) == 0 && l.rlim_cur != RLIM_INFINITY && l.rlim_cur < addresses_used() + ADDRESSES) {
		snprintf(why, room, "its address space is limited (RLIMIT_AS): expected %llu bytes more than it uses, found a limit of %llu", ADDRESSES,
			 (unsigned long long)l.rlim_cur);
		return -ENOMEM;
	}
	name = filtered();
	if (name) {
		snprintf(why, room, "its seccomp filter denies %s", name);
		return -EPERM;
	}
	return 0;
}
