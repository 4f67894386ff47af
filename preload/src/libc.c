/*
 * What differs between C libraries. The libraries that are preloaded must not keep any program from
 * starting: what glibc has not always had in libc.so.6, or another C library does not have, is a weak
 * symbol. Without it there is no device, and the program's first RDMA call says so.
 */
#include "preload.h"

#include <dlfcn.h>
#include <pthread.h>

#pragma weak dlerror
#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlvsym

/* glibc before 2.34 had the functions above in a library of their own, and these in libc.so.6. */
extern void *__libc_dlopen_mode(const char *, int) __attribute__((weak));
extern void *__libc_dlsym(void *, const char *) __attribute__((weak));
#define DLOPEN 0x80000000 /* the flag that dlopen adds */

extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* pthread_atfork is a function of this name in every glibc. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

const struct loader *loader(void)
{
	static struct loader l;
	static atomic_int known;
	void *libdl;

	if (atomic_load_explicit(&known, memory_order_acquire))
		return &l;
	l = (struct loader){ dlopen, dlsym, dlvsym, dlerror };
	if (!l.symbol && __libc_dlopen_mode && __libc_dlsym && (libdl = __libc_dlopen_mode("libdl.so.2", (int)(RTLD_NOW | DLOPEN)))) {
		l.open = (__typeof__(l.open))__libc_dlsym(libdl, "dlopen");
		l.symbol = (__typeof__(l.symbol))__libc_dlsym(libdl, "dlsym");
		l.version = (__typeof__(l.version))__libc_dlsym(libdl, "dlvsym");
		l.error = (__typeof__(l.error))__libc_dlsym(libdl, "dlerror");
	}
	atomic_store_explicit(&known, 1, memory_order_release);
	return &l;
}

const char *libc_unfit(void)
{
	if (!gnu_get_libc_version || !__register_atfork)
		return "expected a program that uses glibc 2.17 or later, found another C library, such as musl";
	return NULL;
}

void after_fork(void (*child)(void))
{
	if (__register_atfork)
		__register_atfork(NULL, NULL, child, __dso_handle);
}
