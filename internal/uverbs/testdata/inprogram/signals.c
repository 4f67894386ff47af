/* Signals of the program stay the program's: signals MODE. */
#include "verbs.h"

#include <setjmp.h>
#include <sys/signalfd.h>
#include <sys/time.h>

static struct device d;
static volatile int count;
static pthread_t owner;
static char *stack_low, *stack_high;

static void find_stack(void)
{
	pthread_attr_t a;
	void *low;
	size_t size;

	CHECK(pthread_getattr_np(pthread_self(), &a) == 0 && pthread_attr_getstack(&a, &low, &size) == 0);
	pthread_attr_destroy(&a);
	owner = pthread_self();
	stack_low = low;
	stack_high = stack_low + size;
}

/* tick is a handler that needs stack, and runs on that of the thread that it interrupts. */
static void tick(int sig)
{
	volatile char room[100 << 10];
	size_t i;

	(void)sig;
	for (i = 0; i < sizeof(room); i += 64)
		room[i] = (char)i;
	if (!pthread_equal(pthread_self(), owner))
		die("a handler runs in a thread of somebody else");
	if ((char *)room < stack_low || (char *)room > stack_high)
		die("a handler runs on a foreign stack");
	count++;
}

static void every(int timer, int microseconds)
{
	struct itimerval v = { { 0, microseconds }, { 0, microseconds } };

	CHECK(setitimer(timer, &v, NULL) == 0);
}

static void storm(void)
{
	struct sigaction a = { .sa_handler = tick, .sa_flags = SA_RESTART };
	double end = now() + 20;

	find_stack();
	CHECK(signal(SIGALRM, tick) == SIG_DFL);
	CHECK(sigaction(SIGPROF, &a, NULL) == 0);
	CHECK(sigaction(SIGURG, &a, NULL) == 0);
	every(ITIMER_REAL, 200);
	every(ITIMER_PROF, 1000);
	while (count < 2000 && now() < end) {
		traffic(&d);
		kill(getpid(), SIGURG);
	}
	every(ITIMER_REAL, 0);
	every(ITIMER_PROF, 0);
	CHECK(count >= 2000);
}

#define QUEUED 5000
static volatile int out_of_order, wrong_mask, wrong_info;

static void value(int sig, siginfo_t *info, void *context)
{
	sigset_t now;

	(void)context;
	tick(sig);
	out_of_order += info->si_value.sival_int != count - 1;
	wrong_info += info->si_code != SI_QUEUE || info->si_pid != getpid() || sig != SIGRTMIN;
	wrong_mask += pthread_sigmask(SIG_SETMASK, NULL, &now) != 0 || !sigismember(&now, SIGRTMIN) || !sigismember(&now, SIGUSR1) || sigismember(&now, SIGUSR2);
}

static void *sends(void *unused)
{
	struct timespec t = { 0, 5000 };
	union sigval v;

	for (v.sival_int = 0; v.sival_int < QUEUED; v.sival_int++) {
		while (sigqueue(getpid(), SIGRTMIN, v) != 0)
			CHECK(errno == EAGAIN);
		nanosleep(&t, NULL);
	}
	return unused;
}

/* Signals that come while the program is in the engine reach it as they were sent. */
static void queued(void)
{
	struct sigaction a = { .sa_sigaction = value, .sa_flags = SA_SIGINFO }, found;
	sigset_t s, before, after;
	double x = 1, end = now() + 60;
	pthread_t t;

	find_stack();
	sigemptyset(&a.sa_mask);
	sigaddset(&a.sa_mask, SIGUSR1);
	CHECK(sigaction(SIGRTMIN, &a, NULL) == 0 && sigaction(SIGRTMIN, NULL, &found) == 0);
	CHECK(found.sa_sigaction == value && (found.sa_flags & ~0x4000000) == SA_SIGINFO);
	CHECK(sigismember(&found.sa_mask, SIGUSR1) && !sigismember(&found.sa_mask, SIGUSR2));
	CHECK(pthread_sigmask(SIG_SETMASK, NULL, &before) == 0);
	sigemptyset(&s);
	sigaddset(&s, SIGRTMIN);
	CHECK(pthread_sigmask(SIG_BLOCK, &s, NULL) == 0 && pthread_create(&t, NULL, sends, NULL) == 0);
	CHECK(pthread_sigmask(SIG_UNBLOCK, &s, NULL) == 0);
	while (count < QUEUED && now() < end) {
		traffic(&d);
		x = x * 1.5 > 1e6 ? 1 : x * 1.5;
	}
	CHECK(count == QUEUED && !out_of_order && !wrong_info && !wrong_mask && x >= 1);
	CHECK(pthread_sigmask(SIG_SETMASK, NULL, &after) == 0 && memcmp(&before, &after, 8) == 0);
	CHECK(pthread_join(t, NULL) == 0 && signal(SIGRTMIN, SIG_DFL) != SIG_ERR);
}

static sigjmp_buf back;
static void leave(int sig) { (void)sig; siglongjmp(back, 1); }

static void jump(void)
{
	double end = now() + 20;
	int jumps;

	CHECK(signal(SIGALRM, leave) == SIG_DFL);
	for (jumps = 0; jumps < 500 && now() < end;) {
		if (sigsetjmp(back, 1) == 0) {
			ualarm(700, 0);
			for (;;) /* neither lock is held in these */
				ibv_query_port(d.context, 1, &(struct ibv_port_attr){ 0 });
		}
		jumps++;
	}
	CHECK(jumps == 500);
	traffic(&d);
}

/* Signals that the program waits for reach nobody else. */
static void wait_for(void)
{
	static const int all[] = { SIGCHLD, SIGTERM, SIGHUP, SIGINT, SIGPROF, SIGALRM, SIGUSR1, SIGURG, SIGPIPE };
	struct signalfd_siginfo info;
	sigset_t s;
	size_t i, k;
	int fd, got;

	sigemptyset(&s);
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		sigaddset(&s, all[i]);
	CHECK(pthread_sigmask(SIG_BLOCK, &s, NULL) == 0);
	CHECK((fd = signalfd(-1, &s, SFD_CLOEXEC)) >= 0);
	for (k = 0; k < 50; k++)
		for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
			traffic(&d);
			CHECK(kill(getpid(), all[i]) == 0);
			if (k % 2) {
				CHECK(read(fd, &info, sizeof(info)) == sizeof(info));
				got = (int)info.ssi_signo;
			} else {
				CHECK(sigwait(&s, &got) == 0);
			}
			if (got != all[i])
				die("found signal %d, expected %d", got, all[i]);
		}
}

static void *asks(void *unused)
{
	sigset_t want, got;
	stack_t mine = { .ss_sp = malloc(64 << 10), .ss_size = 64 << 10 }, found;

	sigemptyset(&want);
	sigaddset(&want, SIGUSR2);
	sigaddset(&want, SIGCHLD);
	CHECK(pthread_sigmask(SIG_SETMASK, &want, NULL) == 0 && sigaltstack(&mine, NULL) == 0);
	traffic(&d);
	CHECK(pthread_sigmask(SIG_SETMASK, NULL, &got) == 0 && memcmp(&got, &want, 8) == 0);
	CHECK(sigaltstack(NULL, &found) == 0 && found.ss_sp == mine.ss_sp && found.ss_size == mine.ss_size);
	return unused;
}

static void nothing(int sig) { (void)sig; }

static void state(void)
{
	struct sigaction a, mine = { .sa_handler = nothing, .sa_flags = SA_NODEFER };
	pthread_t t;
	int sig;

	for (sig = 1; sig < NSIG; sig++)
		if (sig != SIGSTKFLT && sigaction(sig, NULL, &a) == 0 && a.sa_handler != SIG_DFL)
			die("signal %d has another handler", sig);
	CHECK(pthread_create(&t, NULL, asks, NULL) == 0 && pthread_join(t, NULL) == 0);
	for (sig = 1; sig < SIGSYS; sig++) {
		if (sig == SIGKILL || sig == SIGSTOP || sig == SIGSTKFLT)
			continue;
		CHECK(sigaction(sig, &mine, NULL) == 0);
		CHECK(sigaction(sig, NULL, &a) == 0 && a.sa_handler == nothing && (a.sa_flags & ~0x4000000) == SA_NODEFER);
		CHECK(signal(sig, SIG_DFL) == nothing);
	}
	traffic(&d);
}

static void segv(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_code > 0 && info->si_addr != (void *)16)
		die("a fault at %p", info->si_addr);
	count += sig == SIGSEGV;
	siglongjmp(back, 1);
}

/* The program's own faults are the program's, and do not disturb the engine's. */
static void fault(void)
{
	struct sigaction a = { .sa_sigaction = segv, .sa_flags = SA_SIGINFO };
	char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(d.pd, at, SIZE, rights);
	struct ibv_sge sge = { (uintptr_t)at, SIZE, 0 };
	int i;

	CHECK(mr && munmap(at, SIZE) == 0);
	sge.lkey = mr->lkey;
	CHECK(sigaction(SIGSEGV, &a, NULL) == 0);
	for (i = 0; i < 100; i++) {
		traffic(&d);
		if (sigsetjmp(back, 1) == 0) {
			if (i % 3 == 2)
				kill(getpid(), SIGSEGV);
			else
				*(volatile char *)16 = 1;
			sleep(10);
		}
	}
	CHECK(count == 100);
	CHECK(post(&d.a, IBV_WR_RDMA_WRITE, sge, (uintptr_t)d.memory, d.mr->rkey) == 0);
	CHECK(completion(&d.a) == IBV_WC_LOC_PROT_ERR);
	reconnect(&d);
	CHECK(count == 100);
}

static void crash(void) { *(volatile char *)16 = 1; }

static void broken_pipe(void)
{
	int fds[2];

	CHECK(pipe(fds) == 0 && close(fds[0]) == 0);
	if (write(fds[1], "x", 1) < 0)
		die("no SIGPIPE");
}

static void bye(int sig) { (void)sig; exit(7); }

static void leaving(void)
{
	CHECK(signal(SIGALRM, bye) == SIG_DFL);
	ualarm(50000, 0);
	for (;;)
		ibv_query_port(d.context, 1, &(struct ibv_port_attr){ 0 });
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "storm", storm }, { "queued", queued }, { "jump", jump }, { "wait", wait_for }, { "state", state }, { "fault", fault },
		{ "crash", crash }, { "pipe", broken_pipe }, { "exit", leaving },
	};
	size_t i;

	CHECK(signal(SIGHUP, SIG_DFL) != SIG_ERR); /* nohup ignores it */
	device_begin(&d);
	traffic(&d);
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (argc > 1 && strcmp(argv[1], modes[i].name) == 0)
			modes[i].run();
	traffic(&d);
	printf("ok\n");
	return 0;
}
