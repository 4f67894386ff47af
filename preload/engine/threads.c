/*
 * Go's threads block all signals that the program may be sent: see block_again in
 * ../src/signals.c. The linker replaces Go's calls of pthread_create by this one.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "../glibc.h"

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
BIND_AS(__real_pthread_create, pthread_create);

struct start {
	void *(*function)(void *);
	void *argument;
};

static void *begin(void *argument)
{
	struct start s = *(struct start *)argument;
	struct sigaction a;

	free(argument);
	if (sigaction(SIGSTKFLT, NULL, &a) == 0 && a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN)
		raise(SIGSTKFLT); /* blocked until Go unblocks it */
	return s.function(s.argument);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*function)(void *), void *argument)
{
	struct start *s = malloc(sizeof(*s));

	if (!s)
		return 11; /* EAGAIN: Go tries again */
	s->function = function;
	s->argument = argument;
	return __real_pthread_create(thread, attr, begin, s);
}
