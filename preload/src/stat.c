/*
 * The calls that return the type of a file. Libraries check that a device file
 * is a character device with the number that sysfs has.
 */
#include "preload.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Describes a device file. struct stat and stat64 are the same on 64-bit systems. */

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "a 64-bit system");

static void device_stat(struct stat *st, uint64_t rdev)
{
	memset(st, 0, sizeof(*st));
	st->st_mode = S_IFCHR | 0666;
	st->st_nlink = 1;
	st->st_rdev = rdev;
	st->st_ino = rdev;
	st->st_blksize = 4096;
}

/* The declarations say that paths are never NULL, but programs pass NULL. */
__attribute__((noinline)) static int empty(const char *path)
{
	return !path || !path[0];
}

#define STAT(name) \
	EXPORT int name(const char *path, struct stat *st) \
	{ \
		char buf[PATH_ROOM]; \
		uint64_t rdev; \
		NEXT(int (*)(const char *, struct stat *), #name); \
		if (device_path(path) && device_number(path, &rdev) == 0) { \
			device_stat(st, rdev); \
			return 0; \
		} \
		return real_function(redirect(path, buf, sizeof(buf)), st); \
	}

#define FSTAT(name) \
	EXPORT int name(int fd, struct stat *st) \
	{ \
		NEXT(int (*)(int, struct stat *), #name); \
		if (ours(fd)) { \
			device_stat(st, table[fd].rdev); \
			return 0; \
		} \
		return real_function(fd, st); \
	}

/* glibc before 2.33 had these instead. */
#define XSTAT(name) \
	EXPORT int name(int version, const char *path, struct stat *st) \
	{ \
		char buf[PATH_ROOM]; \
		uint64_t rdev; \
		NEXT(int (*)(int, const char *, struct stat *), #name); \
		if (device_path(path) && device_number(path, &rdev) == 0) { \
			device_stat(st, rdev); \
			return 0; \
		} \
		return real_function(version, redirect(path, buf, sizeof(buf)), st); \
	}

#define FXSTAT(name) \
	EXPORT int name(int version, int fd, struct stat *st) \
	{ \
		NEXT(int (*)(int, int, struct stat *), #name); \
		if (ours(fd)) { \
			device_stat(st, table[fd].rdev); \
			return 0; \
		} \
		return real_function(version, fd, st); \
	}

STAT(stat)
STAT(lstat)
FSTAT(fstat)
XSTAT(__xstat)
XSTAT(__xstat64)
XSTAT(__lxstat)
XSTAT(__lxstat64)
FXSTAT(__fxstat)
FXSTAT(__fxstat64)

EXPORT int stat64(const char *path, struct stat64 *st) { return stat(path, (struct stat *)st); }
EXPORT int lstat64(const char *path, struct stat64 *st) { return lstat(path, (struct stat *)st); }
EXPORT int fstat64(int fd, struct stat64 *st) { return fstat(fd, (struct stat *)st); }

#define FSTATAT(name) \
	EXPORT int name(int dir, const char *path, struct stat *st, int flags) \
	{ \
		char buf[PATH_ROOM]; \
		uint64_t rdev; \
		NEXT(int (*)(int, const char *, struct stat *, int), #name); \
		if (device_path(path) && device_number(path, &rdev) == 0) { \
			device_stat(st, rdev); \
			return 0; \
		} \
		if (ours(dir) && (flags & AT_EMPTY_PATH) && empty(path)) { \
			device_stat(st, table[dir].rdev); \
			return 0; \
		} \
		return real_function(dir, redirect(path, buf, sizeof(buf)), st, flags); \
	}

FSTATAT(fstatat)

EXPORT int fstatat64(int dir, const char *path, struct stat64 *st, int flags)
{
	return fstatat(dir, path, (struct stat *)st, flags);
}

/* As XSTAT. */
#define FXSTATAT(name) \
	EXPORT int name(int version, int dir, const char *path, struct stat *st, int flags) \
	{ \
		char buf[PATH_ROOM]; \
		uint64_t rdev; \
		NEXT(int (*)(int, int, const char *, struct stat *, int), #name); \
		if (device_path(path) && device_number(path, &rdev) == 0) { \
			device_stat(st, rdev); \
			return 0; \
		} \
		if (ours(dir) && (flags & AT_EMPTY_PATH) && empty(path)) { \
			device_stat(st, table[dir].rdev); \
			return 0; \
		} \
		return real_function(version, dir, redirect(path, buf, sizeof(buf)), st, flags); \
	}

FXSTATAT(__fxstatat)
FXSTATAT(__fxstatat64)

EXPORT int statx(int dir, const char *path, int flags, unsigned mask, struct statx *st)
{
	char buf[PATH_ROOM];
	uint64_t rdev;
	NEXT(int (*)(int, const char *, int, unsigned, struct statx *), "statx");

	if (!device_path(path) || device_number(path, &rdev) != 0)
		return real_function(dir, redirect(path, buf, sizeof(buf)), flags, mask, st);
	memset(st, 0, sizeof(*st));
	st->stx_mask = STATX_BASIC_STATS;
	st->stx_mode = S_IFCHR | 0666;
	st->stx_nlink = 1;
	st->stx_rdev_major = major(rdev);
	st->stx_rdev_minor = minor(rdev);
	return 0;
}
