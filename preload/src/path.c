#include "preload.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/sysmacros.h>

/* Paths that begin with one of these are read from the server's tree. */
static const char *const prefixes[] = {
	"/sys/class/infiniband",
	"/sys/class/misc/rdma_cm",
	"/sys/devices/virtual/infiniband",
};

static const char dev_dir[] = "/dev/infiniband/";

static char tree[256];
static _Atomic size_t tree_len;

void path_init(void)
{
	const char *s = getenv("SOFTRDMA_TREE");

	if (s)
		path_tree(s);
}

void path_tree(const char *path)
{
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof(tree) || strcmp(path, tree) == 0)
		return;
	memcpy(tree, path, n + 1);
	tree_len = n;
}

/* served reports whether there is a server or one can be started. */
static int served(void) { return tree_len || on_demand(); }

/* redirect returns the path in the server's tree, or path itself. */
const char *redirect(const char *path, char *buf, size_t size)
{
	size_t i, n;

	if (!path || path[0] != '/' || !served())
		return path;
	for (i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (strncmp(path, prefixes[i], strlen(prefixes[i])) != 0)
			continue;
		n = strlen(path);
		if (!server_need() || tree_len == 0 || tree_len + n >= size)
			return path;
		if (strstr(path, "counters"))
			counters_refresh();
		memcpy(buf, tree, tree_len);
		memcpy(buf + tree_len, path, n + 1);
		return buf;
	}
	return path;
}

/* unredirect removes the prefix of the server's tree from a path. */
char *unredirect(char *path)
{
	if (path && tree_len && strncmp(path, tree, tree_len) == 0 && path[tree_len] == '/')
		memmove(path, path + tree_len, strlen(path + tree_len) + 1);
	return path;
}

/* device_path returns the name of an RDMA device file, or NULL. */
const char *device_path(const char *path)
{
	if (!path || path[0] != '/' || !served() || strncmp(path, dev_dir, sizeof(dev_dir) - 1) != 0)
		return NULL;
	server_need();
	return path + sizeof(dev_dir) - 1;
}

static unsigned number(const char **s)
{
	unsigned n = 0;

	while (**s >= '0' && **s <= '9')
		n = n * 10 + (unsigned)(*(*s)++ - '0');
	return n;
}

/*
 * device_number reads major:minor of a device file from the tree, where it is in a file of
 * that name.
 */
int device_number(const char *path, uint64_t *rdev)
{
	char buf[512], text[32];
	const char *s = text;
	size_t n = strlen(path);
	ssize_t got;
	unsigned major;
	int fd;

	if (tree_len + n >= sizeof(buf))
		return -1;
	memcpy(buf, tree, tree_len);
	memcpy(buf + tree_len, path, n + 1);
	fd = real()->open(buf, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	got = real()->read(fd, text, sizeof(text) - 1);
	real()->close(fd);
	if (got <= 0)
		return -1;
	text[got] = 0;
	major = number(&s);
	if (*s++ != ':')
		return -1;
	*rdev = makedev(major, number(&s));
	return 0;
}

int has_devices(void)
{
	uint64_t rdev;

	if (served())
		server_need();
	return tree_len && device_number("/dev/infiniband/uverbs0", &rdev) == 0;
}
