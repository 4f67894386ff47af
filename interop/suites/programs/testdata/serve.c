/*
 * A server of HTTP for one request: serve ADDRESS PORT BYTES. It waits in accept, read and write, as
 * librspreload.so can serve, and not in epoll.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static void put(int fd, const char *b, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, b, n);

		check(done > 0, "write");
		b += done;
		n -= done;
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	char request[4096] = "", head[200], *body;
	size_t n, have = 0, i;
	int l, fd;

	check(argc == 4, "usage");
	at.sin_port = htons(atoi(argv[2]));
	check(inet_pton(AF_INET, argv[1], &at.sin_addr) == 1, argv[1]);
	n = atol(argv[3]);
	check((l = socket(AF_INET, SOCK_STREAM, 0)) >= 0, "socket");
	check(bind(l, (struct sockaddr *)&at, sizeof(at)) == 0, "bind");
	check(listen(l, 1) == 0, "listen");
	check((fd = accept(l, NULL, NULL)) >= 0, "accept");
	while (!strstr(request, "\r\n\r\n")) {
		ssize_t got = read(fd, request + have, sizeof(request) - 1 - have);

		check(got > 0, "read");
		have += got;
	}
	snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", n);
	put(fd, head, strlen(head));
	check((body = malloc(n)) != NULL, "malloc");
	for (i = 0; i < n; i++)
		body[i] = "0123456789\n"[i % 11];
	put(fd, body, n);
	shutdown(fd, SHUT_RDWR);
	close(fd);
	close(l);
	return 0;
}
