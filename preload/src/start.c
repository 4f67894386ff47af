/*
 * The server on demand (softrdma env). At the first RDMA call this library looks for the server of this
 * user, network namespace and command, and otherwise runs the command, which starts or joins it and
 * prints the paths of its socket and its tree. Package internal/ondemand knows the same places.
 *
 * A child of the program, of which it gets no SIGCHLD and which its wait does not see, starts the command
 * and waits for it. If the command has joined a server, it ends. If it has become the server, the child is
 * killed, and the server is nobody's child.
 */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MAX_WORDS 64
#define START_MS 10000 /* a command that takes longer has hung */
#define AGAIN_S 5 /* seconds until a start that failed is tried again */

static const char *const parents[] = { "/dev/shm", "/tmp", "/run" };

static struct {
	pthread_mutex_t lock;
	char text[2048]; /* the command, whose words are words[]; empty if there is none */
	char *words[MAX_WORDS + 1];
	unsigned long long hash; /* of the arguments */
	time_t failed; /* when a start failed last; 0 for never */
	int told;
} command = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void child(void) { pthread_mutex_init(&command.lock, NULL); }

void start_init(void)
{
	const char *s = getenv("SOFTRDMA_START");
	int n = 0;
	char *at;

	if (libc_unfit() && (*(s ? s : "") || getenv("SOFTRDMA_SOCKET")))
		s = "none"; /* the first RDMA call says why */
	if (!s || !*s || strlen(s) >= sizeof(command.text))
		return;
	strcpy(command.text, s);
	at = strchr(command.text, ' ');
	command.hash = 0xcbf29ce484222325; /* FNV-1a */
	for (s = at ? at + 1 : ""; *s; s++)
		command.hash = (command.hash ^ (unsigned char)*s) * 0x100000001b3;
	for (at = command.text; at && n < MAX_WORDS; n++) {
		command.words[n] = at;
		at = strchr(at, ' ');
		if (at)
			*at++ = 0;
	}
	after_fork(child);
}

int on_demand(void) { return command.text[0] != 0; }

/* The kernel's calls: programs and this library replace libc's functions. */
static int private_directory(const char *dir)
{
	struct stat st;

	return syscall(SYS_newfstatat, AT_FDCWD, dir, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & 022);
}

/* join connects to the server that runs already. It returns a connection, or -1. */
static int join(void)
{
	char net[64] = "", dir[128], socket[160], tree[160];
	size_t i, from, to;
	int fd;

	syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/net", net, sizeof(net) - 1); /* "net:[4026531840]" */
	from = strcspn(net, "0123456789");
	to = from + strspn(net + from, "0123456789");
	for (i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
		snprintf(dir, sizeof(dir), "%s/softrdma-env-%u-%.*s-%016llx", parents[i], geteuid(), (int)(to - from), net + from, command.hash);
		if (!private_directory(dir))
			continue;
		snprintf(socket, sizeof(socket), "%s/socket", dir);
		snprintf(tree, sizeof(tree), "%s/tree", dir);
		fd = server_use(socket, tree);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

/* leave_program closes the program's descriptors. Standard output and error become the pipe's end. In a
 * child only system calls are safe: other threads of the program may have held locks. */
static void leave_program(int output)
{
	struct rlimit l = { 0 };
	int i;

	syscall(SYS_dup3, output, 1, 0);
	if (output == 1)
		syscall(SYS_fcntl, 1, F_SETFD, 0);
	syscall(SYS_dup3, 1, 2, 0);
	syscall(SYS_close, 0); /* Go opens /dev/null there */
	if (syscall(436 /* close_range, of Linux 5.9 */, 3, ~0U, 0) < 0) {
		syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &l);
		for (i = 3; i < TABLE && i < (int)l.rlim_cur; i++)
			syscall(SYS_close, i);
	}
}

/*
 * usual_limits takes away what holds for the program alone: processors, scheduling, priority, and limits
 * that it has set below those that it may have.
 */
static void usual_limits(void)
{
	static const int limits[] = { RLIMIT_NOFILE, RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_AS };
	struct { int priority; } usual = { 0 };
	struct rlimit l;
	unsigned long all[128];
	size_t i;

	memset(all, 0xff, sizeof(all));
	syscall(SYS_sched_setaffinity, 0, sizeof(all), all);
	syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &usual);
	syscall(SYS_setpriority, PRIO_PROCESS, 0, 0);
	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (syscall(SYS_prlimit64, 0, limits[i], NULL, &l) < 0)
			continue;
		l.rlim_cur = l.rlim_max;
		syscall(SYS_prlimit64, 0, limits[i], &l, NULL);
	}
}

/* become replaces this process by the command. */
static void become(void)
{
	struct { void *handler; unsigned long flags; void *restorer; uint64_t mask; } defaults = { 0 };
	uint64_t none = 0;
	char failed[2] = { '!' };
	char *nothing[] = { NULL };
	int i;

	syscall(SYS_setsid);
	syscall(SYS_chdir, "/");
	for (i = 1; i <= 64; i++)
		syscall(SYS_rt_sigaction, i, &defaults, NULL, KERNEL_SIGSET);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, KERNEL_SIGSET);
	usual_limits();
	syscall(SYS_execve, command.words[0], command.words, environ ? environ : nothing);
	failed[1] = (char)errno;
	syscall(SYS_write, 1, failed, sizeof(failed));
	syscall(SYS_exit_group, 1);
}

/* parent_of_command is the child of the program. It ends with the program, but the command does not. */
static void parent_of_command(pid_t program, int output)
{
	long pid;

	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	leave_program(output);
	if (syscall(SYS_getppid) == program) {
		pid = syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
		if (pid == 0)
			become();
		syscall(SYS_close, 1);
		syscall(SYS_close, 2);
		syscall(SYS_wait4, pid, NULL, __WALL, NULL); /* execve made it an ordinary child */
	}
	syscall(SYS_exit_group, 0);
}

/* complete reports whether an answer has two lines. That of a server begins with SERVES. */
#define SERVES '+'
static int complete(const char *s)
{
	const char *end = strchr(s, '\n');

	return (*s == '/' || *s == SERVES) && end && strchr(end + 1, '\n');
}

/* answer reads the command's output to its end, or until it is complete. It returns an errno. */
static int answer(int fd, char *to, size_t room)
{
	struct pollfd pf = { .fd = fd, .events = POLLIN };
	struct timespec began, now;
	size_t n = 0;
	ssize_t got;

	clock_gettime(CLOCK_MONOTONIC, &began);
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		got = START_MS - (now.tv_sec - began.tv_sec) * 1000;
		if (got <= 0)
			return ETIMEDOUT;
		got = poll(&pf, 1, (int)got);
		if (got <= 0)
			continue;
		got = n + 1 < room ? real()->read(fd, to + n, room - 1 - n) : 0;
		if (got < 0)
			return errno;
		n += (size_t)got;
		to[n] = 0;
		if (got == 0 || complete(to))
			return 0;
	}
}

/* run runs the command and stores its output. It returns an errno. */
static int run(char *to, size_t room)
{
	int ends[2], status, err;
	pid_t pid, program = (pid_t)syscall(SYS_getpid);

	to[0] = 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return errno;
	pid = (pid_t)syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L); /* fork without a signal to the parent, or handlers */
	if (pid == 0)
		parent_of_command(program, ends[1]);
	err = errno;
	real()->close(ends[1]);
	err = pid < 0 ? err : answer(ends[0], to, room);
	real()->close(ends[0]);
	if (pid > 0 && (err || to[0] == SERVES))
		kill(pid, SIGKILL);
	while (pid > 0 && waitpid(pid, &status, __WCLONE) < 0 && errno == EINTR)
		;
	if (err == 0 && to[0] == '!')
		err = (unsigned char)to[1];
	return err;
}

/* tell says why there is no server, once in a process. */
static void tell(int err, char *output)
{
	static const char prefix[] = "softrdma: ";

	if (command.told)
		return;
	command.told = 1;
	output[strcspn(output, "\n")] = 0;
	if (strncmp(output, prefix, sizeof(prefix) - 1) == 0)
		output += sizeof(prefix) - 1;
	if (err == ETIMEDOUT)
		fprintf(stderr, "softrdma: no RDMA device: %s has not answered for %d s\n", command.words[0], START_MS / 1000);
	else if (err)
		fprintf(stderr, "softrdma: no RDMA device: cannot run %s: %s\n", command.words[0], strerror(err));
	else
		fprintf(stderr, "softrdma: no RDMA device: %s\n", *output ? output : "the server ended when it started");
}

/* obtain joins the server or starts it, and returns a connection, or -1. */
static int obtain(void)
{
	char output[1024], *socket, *tree;
	struct timespec now;
	int fd, err;

	if (libc_unfit()) {
		snprintf(output, sizeof(output), "%s", libc_unfit());
		tell(0, output);
		return -1;
	}
	fd = join();
	if (fd >= 0)
		return fd;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (command.failed && now.tv_sec - command.failed < AGAIN_S)
		return -1;
	err = run(output, sizeof(output));
	if (err == 0 && complete(output)) {
		socket = output + (output[0] == SERVES);
		tree = strchr(socket, '\n');
		*tree++ = 0;
		tree[strcspn(tree, "\n")] = 0;
		fd = server_use(socket, tree);
		if (fd >= 0) {
			command.failed = 0;
			return fd;
		}
		snprintf(output, sizeof(output), "the server does not answer: %s", strerror(errno));
	}
	tell(err, output);
	clock_gettime(CLOCK_MONOTONIC, &now); /* a command that hangs takes longer than AGAIN_S */
	command.failed = now.tv_sec ? now.tv_sec : 1;
	return -1;
}

int start_server(void)
{
	sigset_t all, old;
	int fd, state;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&command.lock);
	fd = obtain();
	pthread_mutex_unlock(&command.lock);
	pthread_setcancelstate(state, NULL);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return fd;
}
