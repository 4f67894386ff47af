/*
 * A set-user-ID program. Its loader ignores preloaded libraries, so it finds no
 * device. With an argument it must not have descriptors of the program that started
 * it either.
 */
#include "verbs.h"

#include <fcntl.h>
#include <sys/auxv.h>

int main(int argc, char **argv)
{
	int n = 0, fd;

	if (!getauxval(AT_SECURE))
		die("not in secure-execution mode");
	ibv_get_device_list(&n);
	CHECK(n == 0);
	(void)argv;
	for (fd = 3; argc > 1 && fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			die("descriptor %d is open", fd);
	printf("no device\n");
	return 0;
}
