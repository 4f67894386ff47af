/*
 * The libraries of softrdma exec run with every glibc from 2.28 on. Newer ones have moved functions
 * into libc.so.6 under new versions, which the linker prefers. Every file is compiled with this
 * header, so that the libraries ask for the versions of these functions that glibc 2.28 has too.
 * The build names functions that are missing here, and then removes these versions from the libraries
 * (preload/oldglibc).
 */
#if !defined(SOFTRDMA_GLIBC_H) && !defined(__ASSEMBLER__)
#define SOFTRDMA_GLIBC_H

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#endif

#ifdef OLDEST
#define BIND_AS(name, function) __asm__(".symver " #name "," #function "@" OLDEST)
#define BIND(function) BIND_AS(function, function)
BIND(dlerror);
BIND(dlopen);
BIND(dlsym);
BIND(dlvsym);
BIND(pthread_attr_getstack);
BIND(pthread_attr_getstacksize);
BIND(pthread_getattr_np);
BIND(pthread_key_create);
BIND(pthread_setspecific);
BIND(pthread_sigmask);
#else
#define BIND_AS(name, function)
#endif
#endif
