/*
 * Signals of a program that has the engine in its process. A goroutine's stack has no room for
 * a signal handler of C, and a handler that leaves by longjmp would leave the engine locked.
 * So no handler of the program runs in the engine. Most are postponed until the thread has
 * left it (handlers.c). For the others, calls block signals.
 *
 * The engine handles SIGSEGV and SIGBUS caused by its own code, by which it finds out that the
 * program has unmapped registered memory. The program handles all others.
 */
#include "preload.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

static atomic_int handlers; /* the program has had a handler that cannot be postponed */
static atomic_int watched; /* handlers must be recorded from now on */
static atomic_int shared; /* the program's actions for faults are in faults[] */

/* A FAULT is a signal that the engine handles and passes on. */
enum { FAULTS = 2 };
static const int fault_signals[FAULTS] = { SIGSEGV, SIGBUS };

static struct sigaction engine_action; /* for faults */
static __thread int loading __attribute__((tls_model("initial-exec"))); /* the engine, in this thread */

/* The kind of a thread; neither if it has not called the engine. */
static __thread int of_program __attribute__((tls_model("initial-exec")));
static __thread int of_engine __attribute__((tls_model("initial-exec")));

static struct {
	pthread_mutex_t lock;
	_Atomic(struct sigaction *) current; /* one of actions */
	struct sigaction actions[2];
} faults[FAULTS] = { { .lock = PTHREAD_MUTEX_INITIALIZER }, { .lock = PTHREAD_MUTEX_INITIALIZER } };

static int fault(int sig)
{
	return sig == SIGSEGV ? 0 : sig == SIGBUS ? 1 : -1;
}

static int real_sigaction(int sig, const struct sigaction *to, struct sigaction *old)
{
	NEXT(int (*)(int, const struct sigaction *, struct sigaction *), "sigaction");
	return real_function(sig, to, old);
}

/* The system raises these for actions of the thread itself: if blocked, they end the program. */
void signals_blockable(sigset_t *s)
{
	sigfillset(s);
	sigdelset(s, SIGSEGV);
	sigdelset(s, SIGBUS);
	sigdelset(s, SIGFPE);
	sigdelset(s, SIGILL);
	sigdelset(s, SIGTRAP);
	sigdelset(s, SIGSYS);
	sigdelset(s, SIGABRT);
}

int signals_handled(void) { return atomic_load_explicit(&handlers, memory_order_relaxed); }

/* signals_note records a handler that cannot be postponed. It is called before the handler is
 * set. */
void signals_note(int sig, void (*handler)(int))
{
	sigset_t s;

	if (handler == SIG_DFL || handler == SIG_IGN || handler == SIG_ERR)
		return;
	signals_blockable(&s);
	if (sigismember(&s, sig) == 1)
		atomic_store(&handlers, 1);
}

/* exchange replaces the program's action for a fault. */
static void exchange(int i, const struct sigaction *to, struct sigaction *old)
{
	struct sigaction *now, *free;
	sigset_t all, before;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	pthread_mutex_lock(&faults[i].lock);
	now = atomic_load(&faults[i].current);
	if (old)
		*old = *now;
	if (to) {
		free = now == &faults[i].actions[0] ? &faults[i].actions[1] : &faults[i].actions[0];
		*free = *to;
		atomic_store(&faults[i].current, free);
	}
	pthread_mutex_unlock(&faults[i].lock);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* pass_on executes the program's action for a fault. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
	struct sigaction a = *atomic_load(&faults[fault(sig)].current), none = { .sa_handler = SIG_DFL };
	ucontext_t *c = context;
	sigset_t mask;

	if (a.sa_handler == SIG_IGN && info->si_code <= 0) /* sent by a process */
		return;
	if (a.sa_handler == SIG_IGN || a.sa_handler == SIG_DFL) {
		real_sigaction(sig, &none, NULL);
		if (info->si_code <= 0)
			raise(sig);
		return; /* to the instruction that faults again */
	}
	if (a.sa_flags & (int)SA_RESETHAND)
		exchange(fault(sig), &none, NULL);
	sigprocmask(SIG_SETMASK, NULL, &mask);
	memcpy(&mask, &c->uc_sigmask, KERNEL_SIGSET);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	if (!(a.sa_flags & SA_NODEFER))
		sigaddset(&a.sa_mask, sig);
	sigprocmask(SIG_BLOCK, &a.sa_mask, NULL);
	if (a.sa_flags & SA_SIGINFO)
		a.sa_sigaction(sig, info, context);
	else
		a.sa_handler(sig);
}

static uintptr_t code, code_end; /* of the engine */

static int find_code(struct dl_phdr_info *info, size_t size, void *function)
{
	uintptr_t wanted = (uintptr_t)function, begin;
	int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		if (info->dlpi_phdr[i].p_type != PT_LOAD || wanted < begin || wanted - begin >= info->dlpi_phdr[i].p_memsz)
			continue;
		code = begin;
		code_end = begin + info->dlpi_phdr[i].p_memsz;
		return 1;
	}
	return 0;
}

/* signals_engine finds the engine's code by one of its functions. */
void signals_engine(void *function) { dl_iterate_phdr(find_code, function); }

/* in_code reports whether a signal has interrupted the engine's code. */
static int in_code(const ucontext_t *c)
{
#ifdef __x86_64__
	uintptr_t pc = (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
#else
	uintptr_t pc = c->uc_mcontext.pc;
#endif

	return code <= pc && pc < code_end;
}

/*
 * faulted is the handler of faults. A thread of the engine may not be known as one:
 * ThreadSanitizer delays SIGSTKFLT until the thread calls libc.
 */
static void faulted(int sig, siginfo_t *info, void *context)
{
	int caused = info->si_code > 0; /* not sent by a process */

	if (caused && (of_engine || engine_entered() || in_code(context)))
		engine_action.sa_sigaction(sig, info, context);
	else
		pass_on(sig, info, context);
}

/*
 * Go unblocks SIGPROF and SIGCHLD in each thread that runs Go, when the thread begins.
 * SIGSTKFLT, which Linux never sends, is sent to the thread before that: Go unblocks it as
 * well, and its handler blocks all of them again in the interrupted thread.
 */
static void block_again(int sig, siginfo_t *info, void *context)
{
	ucontext_t *c = context;
	sigset_t s;

	(void)sig, (void)info;
	if (!of_program)
		of_engine = 1;
	signals_blockable(&s);
	memcpy(&c->uc_sigmask, &s, KERNEL_SIGSET); /* the system's frame has no more room */
}

static struct sigaction before[NSIG], had[NSIG]; /* had are the program's actions, before also those of the engine that stay */
static atomic_int blocks_again; /* block_again is the handler of SIGSTKFLT */

/* signals_loading is called before the engine is loaded. */
void signals_loading(void)
{
	struct sigaction a = { .sa_sigaction = block_again, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };
	int sig;

	sigfillset(&a.sa_mask);
	atomic_store(&watched, 1);
	for (sig = 1; sig < NSIG; sig++) {
		if (real_sigaction(sig, NULL, &before[sig]) != 0)
			before[sig].sa_handler = SIG_ERR;
		had[sig] = before[sig];
	}
	if (real_sigaction(SIGSTKFLT, &a, NULL) == 0) { /* the handler of another Go program would end it */
		before[SIGSTKFLT] = a;
		atomic_store(&blocks_again, 1);
	}
	loading = 1;
}

/* signals_loaded undoes changes that Go has made. Faults are shared with Go. */
void signals_loaded(void)
{
	struct sigaction a;
	int sig, i;

	loading = 0;
	real_sigaction(SIGSEGV, NULL, &engine_action);
	for (i = 0; i < FAULTS; i++) {
		faults[i].actions[0] = before[fault_signals[i]];
		atomic_store(&faults[i].current, &faults[i].actions[0]);
	}
	atomic_store(&shared, 1);
	a = engine_action;
	a.sa_sigaction = faulted;
	for (i = 0; i < FAULTS; i++)
		real_sigaction(fault_signals[i], &a, NULL);
	for (sig = 1; sig < NSIG; sig++) {
		if (fault(sig) < 0 && before[sig].sa_handler != SIG_ERR && real_sigaction(sig, NULL, &a) == 0 &&
		    (a.sa_handler != before[sig].sa_handler || a.sa_flags != before[sig].sa_flags))
			real_sigaction(sig, &before[sig], NULL);
		if (!handlers_wait(sig, &had[sig]))
			signals_note(sig, had[sig].sa_handler);
		else if (before[sig].sa_handler == had[sig].sa_handler)
			handlers_set(real_sigaction, sig, &had[sig], NULL);
	}
}

/* signals_child returns faults to the program, in a process that has no engine. */
void signals_child(void)
{
	int i;

	handlers_child();
	if (!atomic_exchange(&shared, 0))
		return;
	for (i = 0; i < FAULTS; i++) {
		real_sigaction(fault_signals[i], atomic_load(&faults[i].current), NULL);
		pthread_mutex_init(&faults[i].lock, NULL);
	}
}

/* signals_thread is called with signals blocked before a thread's first call of the engine. */
void signals_thread(void)
{
	of_program = 1;
	if (atomic_load(&blocks_again))
		raise(SIGSTKFLT);
}

EXPORT int sigaction(int sig, const struct sigaction *to, struct sigaction *old)
{
	if (loading) /* Go calls libc */
		return real_sigaction(sig, to, old);
	if (atomic_load(&shared) && fault(sig) >= 0) {
		exchange(fault(sig), to, old);
		return 0;
	}
	if (sig == SIGSTKFLT && atomic_load(&blocks_again))
		to = NULL; /* Go's threads check it: see ../engine/threads.c */
	if (atomic_load(&watched))
		return handlers_set(real_sigaction, sig, to, old);
	return real_sigaction(sig, to, old);
}

typedef void handler(int);

/* set implements one of libc's older functions for a signal's handler. waits makes it equal to
 * sigaction with flags. */
static handler *set(const char *name, _Atomic(void *) *at, int flags, int waits, int sig, handler *h)
{
	struct sigaction a = { .sa_handler = h, .sa_flags = flags }, old;
	handler *(*function)(int, handler *);

	if (atomic_load(&shared) && fault(sig) >= 0) {
		exchange(fault(sig), &a, &old);
		return old.sa_handler;
	}
	if (atomic_load(&watched)) {
		if (waits) {
			sigemptyset(&a.sa_mask);
			sigaddset(&a.sa_mask, sig);
			return handlers_set(real_sigaction, sig, &a, &old) == 0 ? old.sa_handler : SIG_ERR;
		}
		signals_note(sig, h);
	}
	function = (handler *(*)(int, handler *))atomic_load(at);
	if (!function) {
		function = (handler *(*)(int, handler *))next(name);
		atomic_store(at, (void *)function);
	}
	return handlers_asked(sig, function(sig, h));
}

#define SET(name, flags, waits) \
	EXPORT handler *name(int sig, handler *h) \
	{ \
		static _Atomic(void *) at; \
		return set(#name, &at, (int)(flags), waits, sig, h); \
	}

SET(signal, SA_RESTART, 1)
SET(bsd_signal, SA_RESTART, 1)
SET(ssignal, SA_RESTART, 1)
SET(sysv_signal, SA_RESETHAND | SA_NODEFER, 0)
SET(__sysv_signal, SA_RESETHAND | SA_NODEFER, 0)
SET(sigset, 0, 0)
