/* Processes that a program starts after it has opened a device: fork MODE [PROGRAM]. */
#include "verbs.h"

#include <spawn.h>

extern char **environ;
static struct device d;
static pthread_t sender;
static volatile int over;

static void *send_on(void *device)
{
	while (!over)
		traffic(device);
	return NULL;
}

static void wait_well(pid_t pid)
{
	double end = now() + 30;
	int status;
	pid_t got;

	CHECK(pid > 0);
	while ((got = waitpid(pid, &status, WNOHANG)) == 0) {
		if (now() > end) {
			kill(pid, SIGKILL);
			die("a child does not end");
		}
		usleep(1000);
	}
	CHECK(got == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The parent's objects are useless in the child, and fail soon. */
static void stale(void)
{
	struct ibv_port_attr port;

	CHECK(ibv_query_port(d.context, 1, &port) == EIO);
	CHECK(!ibv_reg_mr(d.pd, d.memory, 8, rights) && errno == EIO);
	CHECK(ibv_destroy_qp(d.b.qp) != 0);
	ibv_close_device(d.context);
}

static void child_of(int generations)
{
	pid_t pid = fork();
	struct device mine;

	if (pid == 0) {
		if (generations > 1)
			child_of(generations - 1);
		stale();
		memset(&mine, 0, sizeof(mine));
		device_begin(&mine);
		traffic(&mine);
		exit(0);
	}
	wait_well(pid);
}

static void children(void) { child_of(1); }
static void grandchildren(void) { child_of(2); }

static void programs(void)
{
	char *args[] = { "/bin/true", NULL };
	FILE *f;
	char b[16];
	pid_t pid;
	int i;

	for (i = 0; i < 20; i++) {
		CHECK(system("true") == 0);
		CHECK(posix_spawn(&pid, args[0], NULL, NULL, args, environ) == 0);
		wait_well(pid);
		if ((pid = vfork()) == 0) {
			execv(args[0], args);
			_exit(1);
		}
		wait_well(pid);
		CHECK((f = popen("echo hello", "r")) && fgets(b, sizeof(b), f) && strcmp(b, "hello\n") == 0 && pclose(f) == 0);
	}
}

/* Descriptors of the engine do not outlive exec. */
static void descriptors(void)
{
	FILE *f = popen("ls -l /proc/self/fd | grep -c -E 'socket|eventfd|eventpoll|softrdma|memfd'", "r");
	int n = -1;

	CHECK(f && fscanf(f, "%d", &n) == 1);
	pclose(f);
	if (n != 0)
		die("%d descriptors are left after exec", n);
}

/* daemon(3) leaves a process that has to open its device. */
static void background(void)
{
	struct device mine;
	int fds[2];
	char c = 0;

	CHECK(pipe(fds) == 0);
	over = 1;
	pthread_join(sender, NULL);
	if (fork() == 0) {
		CHECK(daemon(1, 1) == 0);
		memset(&mine, 0, sizeof(mine));
		device_begin(&mine);
		traffic(&mine);
		CHECK(write(fds[1], "x", 1) == 1);
		exit(0);
	}
	close(fds[1]);
	CHECK(read(fds[0], &c, 1) == 1 && c == 'x');
	wait(NULL);
	over = 0;
	CHECK(pthread_create(&sender, NULL, send_on, &d) == 0);
}

/* A child that lives on without the descriptors of the program's starter. */
static void left(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		close_range(0, 2, 0);
		sleep(60);
		_exit(0);
	}
	printf("left %d\n", pid);
	fflush(stdout);
	_exit(0);
}

static char *started[] = { NULL, "descriptors", NULL };

/* Other starts a program beside this one, replaced in its place. */
static void other(void)
{
	pid_t pid;

	CHECK(posix_spawn(&pid, started[0], NULL, NULL, started, environ) == 0);
	wait_well(pid);
	if ((pid = fork()) == 0) {
		execv(started[0], started);
		_exit(1);
	}
	wait_well(pid);
}

static void replaced(void)
{
	execv(started[0], started);
	die("exec of %s", started[0]);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "children", children }, { "grandchildren", grandchildren }, { "programs", programs },
		{ "descriptors", descriptors }, { "daemon", background }, { "left", left }, { "other", other }, { "replaced", replaced },
	};
	size_t i;
	int k;

	started[0] = argc > 2 ? argv[2] : NULL;
	CHECK(close_range(3, ~0U, 0) == 0); /* those of the test's own shell */
	device_begin(&d);
	CHECK(pthread_create(&sender, NULL, send_on, &d) == 0);
	for (k = 0; k < 5; k++)
		for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
			if (argc > 1 && strcmp(argv[1], modes[i].name) == 0)
				modes[i].run();
	over = 1;
	pthread_join(sender, NULL);
	traffic(&d);
	printf("ok\n");
	return 0;
}
