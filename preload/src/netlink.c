/*
 * RDMA netlink, by which libraries find devices. The kernel would describe its own devices, so
 * the server answers. The program gets one end of a socket pair that the server has made.
 * poll, send and close work on it as on any socket; these functions hide that its family is
 * not AF_NETLINK.
 */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <linux/netlink.h>

#define NETLINK_RDMA 20

EXPORT int socket(int domain, int type, int protocol)
{
	NEXT(int (*)(int, int, int), "socket");

	if (__builtin_expect(domain == AF_NETLINK && protocol == NETLINK_RDMA, 0))
		return netlink_open(type);
	return real_function(domain, type, protocol);
}

EXPORT int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	NEXT(int (*)(int, const struct sockaddr *, socklen_t), "bind");

	if (file_of(fd) != FILE_NETLINK)
		return real_function(fd, addr, len);
	if (len < sizeof(struct sockaddr_nl) || addr->sa_family != AF_NETLINK) {
		errno = EINVAL;
		return -1;
	}
	table[fd].rdev = ((const struct sockaddr_nl *)addr)->nl_pid;
	return 0;
}

/* As in the kernel, an address that does not fit is truncated, and its full length is
 * returned. */
static void address(void *to, socklen_t *len, uint32_t pid)
{
	struct sockaddr_nl nl = { .nl_family = AF_NETLINK, .nl_pid = pid };

	memcpy(to, &nl, *len < sizeof(nl) ? *len : sizeof(nl));
	*len = sizeof(nl);
}

EXPORT int getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	NEXT(int (*)(int, struct sockaddr *, socklen_t *), "getsockname");

	if (file_of(fd) != FILE_NETLINK)
		return real_function(fd, addr, len);
	address(addr, len, (uint32_t)table[fd].rdev);
	return 0;
}

/* Messages come from the kernel, whose port is 0. */
EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	NEXT(ssize_t (*)(int, struct msghdr *, int), "recvmsg");
	socklen_t room = m->msg_namelen;
	ssize_t n = real_function(fd, m, flags);

	if (n >= 0 && m->msg_name && file_of(fd) == FILE_NETLINK) {
		address(m->msg_name, &room, 0);
		m->msg_namelen = room;
	}
	return n;
}
