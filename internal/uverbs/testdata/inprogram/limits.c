/* What a program does to itself after it has opened a device: limits MODE. */
#include "verbs.h"

#include <dirent.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static struct device d;

static void reregister(void)
{
	struct ibv_mr *mr = ibv_reg_mr(d.pd, d.memory, SIZE, rights);

	CHECK(mr && ibv_dereg_mr(mr) == 0);
}

/* Many threads, one after the other, each of which uses the device once. */
static void *once(void *unused)
{
	struct ibv_wc wc;

	CHECK(ibv_poll_cq(d.a.cq, 1, &wc) == 0);
	return unused;
}

static long number(const char *name)
{
	char line[200];
	long n = -1;
	FILE *f = fopen("/proc/self/status", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			n = atol(line + strlen(name) + 1);
	fclose(f);
	return n;
}

static void threads(void)
{
	long rss = 0;
	pthread_t t;
	int i;

	for (i = 0; i < 10000; i++) {
		if (i == 2000)
			rss = number("VmRSS");
		CHECK(pthread_create(&t, NULL, once, NULL) == 0 && pthread_join(t, NULL) == 0);
	}
	if (number("Threads") > 20 || number("VmRSS") > rss + 4096)
		die("%ld threads, %ld KiB of memory after 10000 threads, %ld after 2000", number("Threads"), number("VmRSS"), rss);
}

/* Many threads at a time. */
static void many(void)
{
	pthread_t t[200];
	int i, k;

	for (k = 0; k < 5; k++) {
		for (i = 0; i < 200; i++)
			CHECK(pthread_create(&t[i], NULL, once, NULL) == 0);
		for (i = 0; i < 200; i++)
			CHECK(pthread_join(t[i], NULL) == 0);
	}
}

static void *uses(void *unused)
{
	traffic(&d);
	reregister();
	return unused;
}

static void small_stacks(void)
{
	pthread_attr_t a;
	pthread_t t;
	int i;

	CHECK(pthread_attr_init(&a) == 0 && pthread_attr_setstacksize(&a, 16 << 10) == 0);
	for (i = 0; i < 50; i++)
		CHECK(pthread_create(&t, &a, uses, NULL) == 0 && pthread_join(t, NULL) == 0);
}

static void descriptors(void)
{
	struct rlimit l = { 4, 4 }; /* of which the program has more */

	CHECK(setrlimit(RLIMIT_NOFILE, &l) == 0);
	traffic(&d);
	reregister();
}

static void address_space(void)
{
	struct rlimit l;

	l.rlim_cur = l.rlim_max = (rlim_t)(number("VmSize") + (128 << 10)) << 10;
	CHECK(setrlimit(RLIMIT_AS, &l) == 0);
	for (int i = 0; i < 1000; i++)
		traffic(&d);
}

static void locked(void)
{
	CHECK(prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	reregister();
}

static void root(void)
{
	CHECK(chroot("/proc/self/fdinfo") == 0 && chdir("/") == 0);
	reregister();
}

static void user(void)
{
	CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	reregister();
}

/* masks prints the signal masks of the threads that are not the program's. */
static void masks(void)
{
	char path[300], line[200];
	struct dirent *e;
	DIR *all = opendir("/proc/self/task");
	FILE *f;

	CHECK(all);
	while ((e = readdir(all))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
		if (atoi(e->d_name) == 0 || atoi(e->d_name) == getpid() || !(f = fopen(path, "r")))
			continue;
		while (fgets(line, sizeof(line), f))
			if (strncmp(line, "SigBlk:", 7) == 0)
				printf("thread %s blocks %s", e->d_name, line + 8);
		fclose(f);
	}
	closedir(all);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "threads", threads }, { "many", many }, { "stacks", small_stacks }, { "descriptors", descriptors },
		{ "memory", address_space }, { "undumpable", locked }, { "chroot", root }, { "setuid", user },
		{ "masks", masks },
	};
	size_t i;

	device_begin(&d);
	traffic(&d);
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (argc > 1 && strcmp(argv[1], modes[i].name) == 0)
			modes[i].run();
	traffic(&d);
	printf("ok\n");
	return 0;
}
