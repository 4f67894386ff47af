/*
 * Makes first RDMA calls in programs of many kinds, and checks that the start of a server changes
 * nothing else in them: first KIND. It prints what is wrong and exits with 1 then.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			dprintf(report, "line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
			_exit(1); \
		} \
	} while (0)

static int report = 2;
static volatile sig_atomic_t children;

static int found(void)
{
	struct stat st;
	DIR *d = opendir("/sys/class/infiniband");

	if (d)
		closedir(d);
	return d && stat("/dev/infiniband/uverbs0", &st) == 0 && S_ISCHR(st.st_mode);
}

/* descriptors counts them, and those which programs that this one starts inherit. */
static int descriptors(int *inherited)
{
	int fd, flags, n = 0;

	*inherited = 0;
	for (fd = 0; fd < 1024; fd++) {
		flags = fcntl(fd, F_GETFD);
		n += flags >= 0;
		*inherited += flags >= 0 && !(flags & FD_CLOEXEC);
	}
	return n;
}

static void ended(int sig)
{
	(void)sig;
	children++;
}

static void *in_thread(void *arg)
{
	(void)arg;
	return (void *)(long)found();
}

static void deny(int call)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { sizeof(f) / sizeof(f[0]), f };

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) == 0);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	int before, after, inherited, inherited_after, i, status;
	sigset_t all, old, now;
	pthread_t threads[16];
	void *result;

	before = descriptors(&inherited);
	if (strcmp(kind, "plain") == 0) {
		errno = 77;
		CHECK(found());
		after = descriptors(&inherited_after);
		CHECK(after <= before + 1 && inherited_after == inherited); /* the connection */
	} else if (strcmp(kind, "children") == 0) {
		struct sigaction a = { .sa_handler = ended };

		CHECK(sigaction(SIGCHLD, &a, NULL) == 0 && found());
		CHECK(wait(&status) == -1 && errno == ECHILD);
		usleep(50000);
		CHECK(children == 0);
	} else if (strcmp(kind, "ignored") == 0) { /* the kernel reaps children itself */
		signal(SIGCHLD, SIG_IGN);
		signal(SIGPIPE, SIG_IGN);
		CHECK(found());
	} else if (strcmp(kind, "blocked") == 0) {
		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, &old);
		sigprocmask(SIG_BLOCK, NULL, &all);
		CHECK(found());
		sigprocmask(SIG_BLOCK, NULL, &now);
		CHECK(memcmp(&all, &now, 8) == 0);
	} else if (strcmp(kind, "closed") == 0) {
		report = fcntl(2, F_DUPFD_CLOEXEC, 100);
		close(0), close(1), close(2);
		CHECK(found());
	} else if (strcmp(kind, "threads") == 0) {
		for (i = 0; i < 16; i++)
			CHECK(pthread_create(&threads[i], NULL, in_thread, NULL) == 0);
		for (i = 0; i < 16; i++)
			CHECK(pthread_join(threads[i], &result) == 0 && result);
	} else if (strcmp(kind, "fork") == 0) {
		for (i = 0; i < 8; i++)
			if (fork() == 0) {
				CHECK(found());
				if (fork() == 0)
					_exit(!found());
				wait(&status);
				_exit(status != 0);
			}
		for (i = 0; i < 8; i++)
			CHECK(wait(&status) > 0 && status == 0);
	} else if (strcmp(kind, "clearenv") == 0) {
		clearenv();
		CHECK(found());
	} else if (strcmp(kind, "again") == 0) { /* the server is killed in between */
		CHECK(found());
		puts("found");
		fflush(stdout);
		getchar();
		CHECK(found());
	} else if (strcmp(kind, "clone") == 0 || strcmp(kind, "execve") == 0 || strcmp(kind, "close_range") == 0) {
		deny(*kind == 'e' ? SYS_execve : kind[2] == 'o' && kind[5] == 0 ? SYS_clone : 436);
		printf("%s\n", found() ? "found" : "not found");
	} else {
		return 2;
	}
	return 0;
}
