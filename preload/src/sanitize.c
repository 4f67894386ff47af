/*
 * The sanitizer's part in the program: positions of its calls. The engine checks, and resolves the
 * addresses when it has found a mistake.
 */
#include "preload.h"
#include "engine.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of execinfo.h, which not every C library has. */
extern int backtrace(void **addresses, int n) __attribute__((weak));

enum { FRAMES = 32 };

static struct {
	int wanted;
	char rules[1024], suppressions[PATH_MAX], json[PATH_MAX];
	engine_waits *waits; /* not NULL if the engine checks */
} sanitizer;

static __thread void *addresses[FRAMES] __attribute__((tls_model("initial-exec")));
static __thread int frames __attribute__((tls_model("initial-exec")));

static void keep(char *to, size_t room, const char *name)
{
	const char *s = getenv(name);

	if (s && strlen(s) < room)
		strcpy(to, s);
}

void sanitize_init(void)
{
	const char *s = getenv("SOFTRDMA_SANITIZE");

	sanitizer.wanted = s && *s;
	keep(sanitizer.rules, sizeof(sanitizer.rules), "SOFTRDMA_SANITIZE");
	keep(sanitizer.suppressions, sizeof(sanitizer.suppressions), "SOFTRDMA_SANITIZE_SUPPRESSIONS");
	keep(sanitizer.json, sizeof(sanitizer.json), "SOFTRDMA_SANITIZE_JSON");
}

static int position(void ***to)
{
	*to = addresses;
	return frames;
}

int sanitize_begin(void *library, char *why, size_t room)
{
	engine_sanitize *begin;
	engine_waits *waits;
	int err;

	if (!sanitizer.wanted)
		return 0;
	begin = (engine_sanitize *)loader()->symbol(library, "softrdma_engine_sanitize");
	waits = (engine_waits *)loader()->symbol(library, "softrdma_engine_waits");
	if (!begin || !waits) {
		snprintf(why, room, "%s", loader()->error());
		return -ELIBACC;
	}
	if (backtrace) /* its first call loads a library */
		backtrace(addresses, FRAMES);
	err = begin(sanitizer.rules, sanitizer.suppressions, sanitizer.json, position, why, room);
	if (!err)
		sanitizer.waits = waits;
	return err;
}

void sanitize_enter(void)
{
	if (__builtin_expect(sanitizer.waits && backtrace, 0))
		frames = backtrace(addresses, FRAMES);
}

void sanitize_leave(void) { frames = 0; }

int sanitize_on(void) { return sanitizer.waits != NULL; }

void sanitize_waits(uint64_t file, int took)
{
	sanitize_enter();
	sanitizer.waits(file, took);
	sanitize_leave();
}
