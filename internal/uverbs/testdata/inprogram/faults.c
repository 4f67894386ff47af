/* Registered memory is unmapped, truncated or protected while requests use it. */
#include "verbs.h"

#include <fcntl.h>

static struct device d;

static void try(const char *what, struct ibv_mr *mr)
{
	struct ibv_sge good = { (uintptr_t)d.memory, 8192, d.mr->lkey }, bad = { (uintptr_t)mr->addr, 8192, mr->lkey };
	struct ibv_recv_wr r = { .sg_list = &bad, .num_sge = 1 }, *none;
	int send, write, read, target, atomic, receive;

	CHECK(post(&d.a, IBV_WR_RDMA_WRITE, bad, (uintptr_t)d.memory, d.mr->rkey) == 0);
	write = completion(&d.a);
	reconnect(&d);
	CHECK(post(&d.a, IBV_WR_RDMA_READ, bad, (uintptr_t)d.memory, d.mr->rkey) == 0);
	read = completion(&d.a);
	reconnect(&d);
	CHECK(post(&d.a, IBV_WR_RDMA_WRITE, good, (uintptr_t)mr->addr, mr->rkey) == 0);
	target = completion(&d.a);
	reconnect(&d);
	CHECK(post(&d.a, IBV_WR_RDMA_READ, good, (uintptr_t)mr->addr, mr->rkey) == 0);
	send = completion(&d.a);
	reconnect(&d);
	{
		struct ibv_sge eight = { (uintptr_t)d.memory, 8, d.mr->lkey };
		struct ibv_send_wr w = { .sg_list = &eight, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED }, *badw;

		w.wr.atomic.remote_addr = (uintptr_t)mr->addr;
		w.wr.atomic.rkey = mr->rkey;
		w.wr.atomic.compare_add = 1;
		CHECK(ibv_post_send(d.a.qp, &w, &badw) == 0);
		atomic = completion(&d.a);
		reconnect(&d);
	}
	CHECK(ibv_post_recv(d.b.qp, &r, &none) == 0);
	CHECK(post(&d.a, IBV_WR_SEND, good, 0, 0) == 0);
	receive = completion(&d.a);
	reconnect(&d);
	if (write != IBV_WC_LOC_PROT_ERR || read != IBV_WC_LOC_PROT_ERR)
		die("%s: own memory: write %d, read %d", what, write, read);
	if (target == IBV_WC_SUCCESS || send == IBV_WC_SUCCESS || atomic == IBV_WC_SUCCESS || receive == IBV_WC_SUCCESS)
		die("%s: the peer's memory: write %d, read %d, atomic %d, send %d", what, target, send, atomic, receive);
	traffic(&d);
	printf("%s: ok\n", what);
}

static void *unmapper(void *at)
{
	int i;

	for (i = 0; i < 2000; i++) {
		CHECK(mmap(at, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
		usleep(50);
		CHECK(mmap(at, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
		usleep(50);
	}
	return NULL;
}

static struct ibv_mr *map(int fd)
{
	void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	struct ibv_mr *mr;

	CHECK(at != MAP_FAILED);
	CHECK(mr = ibv_reg_mr(d.pd, at, SIZE, rights));
	return mr;
}

int main(void)
{
	struct ibv_mr *mr;
	pthread_t t;
	int fd, n;

	device_begin(&d);
	traffic(&d);

	mr = map(-1);
	CHECK(munmap(mr->addr, SIZE) == 0);
	try("unmapped", mr);

	mr = map(-1);
	CHECK(mprotect(mr->addr, SIZE, PROT_NONE) == 0);
	try("protected", mr);

	CHECK((fd = memfd_create("file", MFD_CLOEXEC)) >= 0 && ftruncate(fd, SIZE) == 0);
	mr = map(fd);
	CHECK(ftruncate(fd, 0) == 0);
	try("truncated", mr);

	/* Memory that comes and goes while it is used. */
	mr = map(-1);
	CHECK(pthread_create(&t, NULL, unmapper, mr->addr) == 0);
	for (n = 0; n < 3000; n++) {
		struct ibv_sge bad = { (uintptr_t)mr->addr, SIZE, mr->lkey }, good = { (uintptr_t)d.memory, SIZE, d.mr->lkey };

		if (n % 2)
			CHECK(post(&d.a, IBV_WR_RDMA_WRITE, bad, (uintptr_t)d.memory, d.mr->rkey) == 0);
		else
			CHECK(post(&d.a, n % 4 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, good, (uintptr_t)mr->addr, mr->rkey) == 0);
		if (completion(&d.a) != IBV_WC_SUCCESS)
			reconnect(&d);
	}
	pthread_join(t, NULL);
	reconnect(&d);
	traffic(&d);
	printf("coming and going: ok\n");
	return 0;
}
