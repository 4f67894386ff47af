/*
 * Exchanges management datagrams of a vendor's class through libibumad.
 *
 *   umad server COUNT      answers COUNT requests
 *   umad client GID COUNT  sends COUNT requests to the port of a GID and checks the responses,
 *                          then one whose response does not come
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/umad.h>
#include <infiniband/umad_types.h>

enum { CLASS = 0x33, DATA = 40, ABSENT = 0x7001 };

static uint8_t oui[3] = { 0x00, 0x14, 0x05 }, none[3];
static int port;

static void check(int ok, const char *what)
{
	if (ok)
		return;
	printf("failed: %s (errno %d)\n", what, errno);
	exit(1);
}

static void *new_mad(uint8_t method, uint16_t attribute, uint64_t tid)
{
	void *umad = umad_alloc(1, umad_size() + 256);
	struct umad_packet *p;

	check(umad != NULL, "umad_alloc");
	p = umad_get_mad(umad);
	p->mad_hdr.base_version = 1;
	p->mad_hdr.mgmt_class = CLASS;
	p->mad_hdr.class_version = 1;
	p->mad_hdr.method = method;
	p->mad_hdr.tid = htobe64(tid);
	p->mad_hdr.attr_id = htons(attribute);
	memcpy((uint8_t *)p + 37, oui, 3);
	return umad;
}

static void *receive(int timeout, int *length)
{
	void *umad = umad_alloc(1, umad_size() + 256);

	*length = 256;
	check(umad_recv(port, umad, length, timeout) >= 0, "umad_recv");
	return umad;
}

static int server(int count)
{
	long methods[16 / sizeof(long)] = { 1 << UMAD_METHOD_GET };
	int agent, other, i, length;

	agent = umad_register_oui(port, CLASS, 0, oui, methods);
	check(agent >= 0, "umad_register_oui");
	other = umad_register_oui(port, CLASS, 0, oui, methods);
	check(other == -EINVAL || (other < 0 && errno == EINVAL), "a method twice");
	printf("ready\n");
	fflush(stdout);
	for (i = 0; i < count; i++) {
		ib_user_mad_t *umad = receive(-1, &length);
		struct umad_packet *p = umad_get_mad(umad);

		check(umad_status(umad) == 0 && length == 256, "a request");
		check(umad->agent_id == (uint32_t)agent && umad->addr.grh_present, "its header");
		if (ntohs(p->mad_hdr.attr_id) == ABSENT) {
			i--; /* of the client's last request */
			umad_free(umad);
			continue;
		}
		p->mad_hdr.method |= 0x80;
		((uint8_t *)p)[DATA + 4]++;
		check(umad_send(port, agent, umad, 256, 0, 0) == 0, "umad_send of a response");
		umad_free(umad);
	}
	check(umad_unregister(port, agent) == 0, "umad_unregister");
	check(umad_unregister(port, agent) < 0, "umad_unregister twice");
	return 0;
}

static void ask(int agent, union umad_gid *gid, uint16_t attribute, uint32_t number, int timeout, int retries)
{
	ib_user_mad_t *umad = new_mad(UMAD_METHOD_GET, attribute, number);
	uint8_t *data = umad_get_mad(umad);

	memcpy(data + DATA, &number, sizeof(number));
	umad_set_addr(umad, 0, 1, 0, UMAD_QKEY);
	umad->addr.grh_present = 1;
	umad->addr.hop_limit = 64;
	memcpy(umad->addr.gid, gid, 16);
	check(umad_send(port, agent, umad, 256, timeout, retries) == 0, "umad_send");
	if (attribute == ABSENT)
		check(umad_send(port, agent, umad, 256, timeout, retries) != 0 && errno == EINVAL, "a duplicate");
	umad_free(umad);
}

static int client(const char *name, uint32_t count)
{
	union umad_gid gid;
	int agents[32], agent, i, length;
	uint32_t number, found;
	ib_user_mad_t *umad;
	uint8_t *data;

	check(inet_pton(AF_INET6, name, &gid) == 1, "the GID");
	check(umad_register_oui(port, CLASS, 0, none, NULL) < 0 && errno == EINVAL, "umad_register without an OUI");
	agent = umad_register_oui(port, CLASS, 0, oui, NULL);
	check(agent >= 0, "umad_register_oui");
	for (number = 1; number <= count; number++) {
		ask(agent, &gid, 1, number, 1000, 10);
		umad = receive(20000, &length);
		data = umad_get_mad(umad);
		memcpy(&found, data + DATA, sizeof(found));
		check(umad_status(umad) == 0 && length == 256 && found == number && data[DATA + 4] == 1, "a response");
		check(be64toh(((struct umad_hdr *)data)->tid) << 32 == (uint64_t)number << 32, "its transaction");
		umad_free(umad);
	}
	check(umad_poll(port, 0) == -ETIMEDOUT, "umad_poll of nothing");
	ask(agent, &gid, ABSENT, number, 50, 2);
	umad = receive(20000, &length);
	check(umad_status(umad) == ETIMEDOUT, "a time-out");
	umad_free(umad);
	check(umad_register(port, UMAD_CLASS_SUBN_LID_ROUTED, 1, 0, NULL) < 0 && errno == EPROTONOSUPPORT, "queue pair 0");
	for (i = 0; i < 31; i++)
		check((agents[i] = umad_register_oui(port, CLASS, 0, oui, NULL)) >= 0, "32 agents");
	check(umad_register_oui(port, CLASS, 0, oui, NULL) < 0 && errno == ENOMEM, "33 agents");
	return 0;
}

int main(int argc, char **argv)
{
	check(umad_init() == 0, "umad_init");
	port = umad_open_port(NULL, 0);
	check(port >= 0, "umad_open_port");
	if (argc == 3 && strcmp(argv[1], "server") == 0)
		server(atoi(argv[2]));
	else if (argc == 4 && strcmp(argv[1], "client") == 0)
		client(argv[2], (uint32_t)atoi(argv[3]));
	else
		return 2;
	check(umad_close_port(port) == 0, "umad_close_port");
	printf("done\n");
	return 0;
}
