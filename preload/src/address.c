/*
 * Before it makes an address handle, the provider of Linux's Soft RoCE asks libibverbs for the
 * Ethernet address of a GID. Ports of an InfiniBand fabric have no Ethernet addresses, and the
 * handle may have a LID instead of a GID. For these ports this function returns zeros, which
 * the server ignores.
 */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* struct ibv_ah_attr */
struct address {
	uint8_t gid[16];
	uint32_t flow_label;
	uint8_t gid_index, hop_limit, traffic_class;
	uint16_t lid;
	uint8_t service_level, path_bits, rate, global, port;
};

#define MAC_LEN 6

/* infiniband reports whether a port of a device has InfiniBand's link layer. */
static int infiniband(const char *device, unsigned port)
{
	static const char name[] = "InfiniBand";
	char path[PATH_ROOM], buf[PATH_ROOM], text[sizeof(name) - 1];
	int fd, n;

	n = snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/link_layer", device, port);
	if (n < 0 || (size_t)n >= sizeof(path))
		return 0;
	fd = real()->open(redirect(path, buf, sizeof(buf)), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = (int)real()->read(fd, text, sizeof(text));
	real()->close(fd);
	return n == (int)sizeof(text) && memcmp(text, name, sizeof(text)) == 0;
}

EXPORT int ibv_resolve_eth_l2_from_gid(void *context, struct address *a, uint8_t *mac, uint16_t *vlan)
{
	int (*resolve)(void *, struct address *, uint8_t *, uint16_t *);
	const char *(*name)(void *);

	resolve = (__typeof__(resolve))libibverbs("ibv_resolve_eth_l2_from_gid");
	name = (__typeof__(name))libibverbs("ibv_get_device_name");
	if (!resolve || !name)
		return ENOSYS;
	/* struct ibv_context begins with its device */
	if (!infiniband(name(*(void **)context), a->port))
		return resolve(context, a, mac, vlan);
	memset(mac, 0, MAC_LEN);
	if (vlan)
		*vlan = 0;
	return 0;
}
