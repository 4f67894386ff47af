/*
 * Signal handlers of the program, without a system call in each call of the engine.
 *
 * A signal that arrives while its thread is in the engine is postponed: the thread continues
 * with signals blocked, and gets the signal again when it has left the engine. In the engine
 * it runs on the small stack of a goroutine, so the kernel calls deliver on the alternate
 * stack. If the thread is not in the engine, deliver moves the kernel's frame to the stack
 * that the signal has interrupted, where the program's handler expects it.
 *
 * For handlers with SA_ONSTACK, SA_RESETHAND and SA_NODEFER, and on other processors, calls of
 * the engine block signals instead.
 */
#include "preload.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __x86_64__

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The program's actions, for signals whose handler is deliver. */
static struct {
	_Atomic(struct sigaction *) current; /* one of actions */
	struct sigaction actions[2];
} asked[NSIG];

static atomic_int some; /* deliver has been a handler */

/* The mask to restore when this thread has left the engine. */
static __thread volatile int postponed __attribute__((tls_model("initial-exec")));
static __thread unsigned char before[KERNEL_SIGSET] __attribute__((tls_model("initial-exec")));

static void postpone(int sig, siginfo_t *info, ucontext_t *c)
{
	sigset_t all;
	int old = errno;

	memcpy(before, &c->uc_sigmask, KERNEL_SIGSET);
	postponed = 1;
	signals_blockable(&all);
	sigorset(&all, &all, &c->uc_sigmask);
	memcpy(&c->uc_sigmask, &all, KERNEL_SIGSET); /* the kernel's frame has no room for more */
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), sig, info) != 0)
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig);
	errno = old;
}

void handlers_resume(void)
{
	sigset_t s;

	if (__builtin_expect(!postponed, 1))
		return;
	sigemptyset(&s);
	memcpy(&s, before, KERNEL_SIGSET);
	postponed = 0;
	sigprocmask(SIG_SETMASK, &s, NULL);
}

/* run calls the program's handler with the program's mask. */
static void run(int sig, siginfo_t *info, void *context)
{
	struct sigaction a = *atomic_load(&asked[sig].current);
	ucontext_t *c = context;
	sigset_t mask;

	sigemptyset(&mask);
	memcpy(&mask, &c->uc_sigmask, KERNEL_SIGSET);
	sigorset(&mask, &mask, &a.sa_mask);
	sigaddset(&mask, sig);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	if (a.sa_flags & SA_SIGINFO)
		a.sa_sigaction(sig, info, context);
	else
		a.sa_handler(sig);
}

/* The end of the kernel's frame, which is the end of the processor's extended state. */
static char *frame_end(siginfo_t *info, ucontext_t *c)
{
	char *state = (char *)c->uc_mcontext.fpregs;
	uint32_t magic, size;

	if (!state)
		return (char *)(info + 1);
	memcpy(&magic, state + 464, sizeof(magic));
	memcpy(&size, state + 468, sizeof(size));
	return state + (magic == 0x46505853 ? size : 512); /* FP_XSTATE_MAGIC1 */
}

/*
 * deliver is the handler. The kernel's frame begins with its return address, the system call
 * that ends the handler, which finds the rest of the frame by the stack pointer. So the frame
 * can be copied. The frames of Valgrind are different: they stay where they are.
 */
__attribute__((noinline)) static void deliver(int sig, siginfo_t *info, void *context)
{
	ucontext_t *c = context, *moved;
	char *low = c->uc_stack.ss_sp, *high = low + c->uc_stack.ss_size;
	char *sp = (char *)c->uc_mcontext.gregs[REG_RSP], *frame = (char *)context - sizeof(void *), *end;
	intptr_t by;

	if (engine_entered()) {
		postpone(sig, info, c);
		return;
	}
	end = frame_end(info, c);
	if ((c->uc_stack.ss_flags & SS_DISABLE) || frame < low || frame >= high || (sp > low && sp <= high) || /* not on the alternate stack because of the signal */
	    (char *)__builtin_frame_address(0) + sizeof(void *) != frame || (char *)info < frame || (char *)(info + 1) > end || end > high) {
		run(sig, info, context);
		return;
	}
	by = (sp - 128 - end) & ~(intptr_t)63; /* below the red zone; the state is aligned to 64 bytes */
	memcpy(frame + by, frame, (size_t)(end - frame));
	moved = (ucontext_t *)((char *)c + by);
	if (moved->uc_mcontext.fpregs)
		moved->uc_mcontext.fpregs = (void *)((char *)moved->uc_mcontext.fpregs + by);
	__asm__ volatile("mov %0, %%rsp\n\tjmp *%1" : : "r"(frame + by), "r"(run), "D"(sig), "S"((char *)info + by), "d"(moved) : "memory");
	__builtin_unreachable();
}

int handlers_wait(int sig, const struct sigaction *a)
{
	sigset_t s;

	signals_blockable(&s);
	return a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN && a->sa_handler != SIG_ERR && sigismember(&s, sig) == 1 &&
	       !(a->sa_flags & (int)(SA_ONSTACK | SA_RESETHAND | SA_NODEFER));
}

int handlers_set(sigaction_function *set, int sig, const struct sigaction *to, struct sigaction *old)
{
	struct sigaction *now, *next, kernel, was;
	sigset_t all, mask;
	int err;

	if (sig <= 0 || sig >= NSIG)
		return set(sig, to, old);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &mask);
	pthread_mutex_lock(&lock);
	now = atomic_load(&asked[sig].current);
	if (to && handlers_wait(sig, to)) {
		next = now == &asked[sig].actions[0] ? &asked[sig].actions[1] : &asked[sig].actions[0];
		*next = kernel = *to;
		kernel.sa_sigaction = deliver;
		kernel.sa_flags |= SA_SIGINFO | SA_ONSTACK;
		signals_blockable(&kernel.sa_mask);
		atomic_store(&asked[sig].current, next);
		atomic_store(&some, 1);
		err = set(sig, &kernel, &was);
		if (err)
			atomic_store(&asked[sig].current, now);
	} else {
		if (to)
			signals_note(sig, to->sa_handler);
		err = set(sig, to, &was);
	}
	if (!err && old)
		*old = was.sa_sigaction == deliver ? *now : was;
	pthread_mutex_unlock(&lock);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	return err;
}

void (*handlers_asked(int sig, void (*h)(int)))(int)
{
	return (void *)h == (void *)deliver ? atomic_load(&asked[sig].current)->sa_handler : h;
}

int handlers_some(void) { return atomic_load_explicit(&some, memory_order_relaxed); }
void handlers_child(void) { pthread_mutex_init(&lock, NULL); }

#else

void handlers_resume(void) {}
int handlers_wait(int sig, const struct sigaction *a) { return (void)sig, (void)a, 0; }

int handlers_set(sigaction_function *set, int sig, const struct sigaction *to, struct sigaction *old)
{
	if (to)
		signals_note(sig, to->sa_handler);
	return set(sig, to, old);
}

void (*handlers_asked(int sig, void (*h)(int)))(int) { return (void)sig, h; }
int handlers_some(void) { return 0; }
void handlers_child(void) {}

#endif
