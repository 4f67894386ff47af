// Package rdmanl speaks RDMA's netlink (rdma/rdma_netlink.h) as the kernel does: it parses requests
// about devices, and answers them with messages that describe devices, ports, the objects of
// programs and counters.
//
// The package owns the messages. It knows devices only as a Source describes them, opens no socket,
// and changes nothing: commands that change devices are refused.
package rdmanl
