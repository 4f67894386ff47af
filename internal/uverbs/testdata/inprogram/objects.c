/*
 * A program makes as many objects of one kind as its device says that it has, and then maps memory
 * for itself: objects KIND.
 */
#include "verbs.h"

static struct device d;
static struct ibv_device_attr attr;

static void *pair(void)
{
	struct ibv_qp_init_attr i = { .qp_type = IBV_QPT_RC, .send_cq = d.a.cq, .recv_cq = d.a.cq, .cap = { 1, 1, 1, 1, 0 } };

	return ibv_create_qp(d.pd, &i);
}

static void *queue(void) { return ibv_create_cq(d.context, 1, NULL, NULL, 0); }
static void *region(void) { return ibv_reg_mr(d.pd, d.memory, 4096, rights); }

static void *shared(void)
{
	struct ibv_srq_init_attr i = { .attr = { 1, 1, 0 } };

	return ibv_create_srq(d.pd, &i);
}

/* Mappings of different rights are not merged. */
static void map(int count)
{
	int i;

	for (i = 0; i < count; i++)
		if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			die("%d mappings are left", i);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void *(*make)(void);
		int *most;
		int have; /* that device_begin has made */
	} kinds[] = {
		{ "pairs", pair, &attr.max_qp, 2 }, { "queues", queue, &attr.max_cq, 2 },
		{ "regions", region, &attr.max_mr, 1 }, { "shared", shared, &attr.max_srq, 0 },
	};
	size_t i;
	int n;

	device_begin(&d);
	CHECK(ibv_query_device(d.context, &attr) == 0);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (argc < 2 || strcmp(argv[1], kinds[i].name) != 0)
			continue;
		for (n = kinds[i].have; n < *kinds[i].most; n++)
			if (!kinds[i].make())
				die("%s: number %d of %d", kinds[i].name, n + 1, *kinds[i].most);
		printf("%d %s: ", n, kinds[i].name);
	}
	map(2000);
	traffic(&d);
	printf("ok\n");
	return 0;
}
