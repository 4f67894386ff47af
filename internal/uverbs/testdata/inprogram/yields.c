/*
 * Threads that poll a completion queue in turn, under a lock that the others
 * spin for, keep their processor. One that polls alone yields it now and then.
 * A filter of system calls counts how often.
 */
#include "verbs.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define POLLS 40000

static struct device d;
static volatile sig_atomic_t yielded;
static int turn; /* of which thread, guarded by lock */
static pthread_spinlock_t lock;

static void count(int number) { (void)number, yielded++; }

/* trap makes yields of this thread, and of those that it starts, signals. */
static void trap(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(f) / sizeof(f[0]), f };
	struct sigaction a = { .sa_handler = count };

	CHECK(sigaction(SIGSYS, &a, NULL) == 0);
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void poll_vainly(void)
{
	struct ibv_wc wc;

	CHECK(ibv_poll_cq(d.a.cq, 1, &wc) == 0);
}

/* take_turns polls when it is this thread's turn. */
static void *take_turns(void *me)
{
	int i = 0;

	while (i < POLLS / 2) {
		pthread_spin_lock(&lock);
		if (turn == *(int *)me) {
			poll_vainly();
			turn = !turn;
			i++;
		}
		pthread_spin_unlock(&lock);
	}
	return NULL;
}

int main(void)
{
	static int numbers[2] = { 0, 1 };
	pthread_t other;
	int i, together;

	device_begin(&d);
	CHECK(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE) == 0);
	trap();
	for (i = 0; i < POLLS; i++)
		poll_vainly();
	printf("alone: %d yields in %d polls\n", yielded, POLLS);
	yielded = 0;
	CHECK(pthread_create(&other, NULL, take_turns, &numbers[1]) == 0);
	take_turns(&numbers[0]);
	CHECK(pthread_join(other, NULL) == 0);
	together = yielded;
	printf("in turn: %d yields in %d polls\n", together, POLLS);
	yielded = 0;
	for (i = 0; i < POLLS; i++)
		poll_vainly();
	printf("alone again: %d yields in %d polls\n", yielded, POLLS);
	return 0;
}
