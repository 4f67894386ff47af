/* What programs that are not linked to libibverbs load: it opens a device, uses it and closes it. */
#include "verbs.h"

int use_device(int rounds)
{
	struct device d;

	memset(&d, 0, sizeof(d));
	device_begin(&d);
	while (rounds-- > 0)
		traffic(&d);
	CHECK(ibv_destroy_qp(d.a.qp) == 0 && ibv_destroy_qp(d.b.qp) == 0);
	CHECK(ibv_destroy_cq(d.a.cq) == 0 && ibv_destroy_cq(d.b.cq) == 0);
	CHECK(ibv_dereg_mr(d.mr) == 0 && munmap(d.memory, 2 * SIZE) == 0);
	CHECK(ibv_dealloc_pd(d.pd) == 0 && ibv_close_device(d.context) == 0);
	return rounds;
}
