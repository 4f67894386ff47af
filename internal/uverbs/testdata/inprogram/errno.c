/*
 * Calls that succeed leave errno alone, as with a device of the kernel: Go's cgo and others
 * take another errno for a failure. ibv_open_device is not here: with Linux's Soft RoCE it
 * leaves the errno of a command that it tries first.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

static int bad;

#define KEEPS(call)                                                           \
	do {                                                                  \
		errno = 0;                                                    \
		if (!(call) || errno) {                                       \
			printf("%s: errno %d\n", #call, errno);               \
			bad = 1;                                              \
		}                                                             \
	} while (0)

int main(void)
{
	struct ibv_device **list;
	struct ibv_context *c;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	static char buf[4096];
	int n;

	KEEPS(list = ibv_get_device_list(&n));
	c = ibv_open_device(list[0]);
	if (!c)
		return 1;
	KEEPS(pd = ibv_alloc_pd(c));
	KEEPS(mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE));
	KEEPS(channel = ibv_create_comp_channel(c));
	KEEPS(cq = ibv_create_cq(c, 1, NULL, channel, 0));
	KEEPS(!ibv_req_notify_cq(cq, 0));
	KEEPS(!ibv_destroy_cq(cq));
	KEEPS(!ibv_destroy_comp_channel(channel));
	KEEPS(!ibv_dereg_mr(mr));
	KEEPS(!ibv_dealloc_pd(pd));
	KEEPS(!ibv_close_device(c));
	if (!bad)
		printf("errno: ok\n");
	return bad;
}
