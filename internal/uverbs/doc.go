// Package uverbs serves devices of this process to programs that know nothing of
// softrdma. A small preloaded library forwards a program's system calls on device
// files over a Unix socket; the program's own libibverbs and librdmacm, and their
// rxe and siw providers, do the rest.
//
// It owns the server: the socket, its connections and their threads, the open
// files, and the sysfs files and netlink messages by which libraries find devices.
// The packages below it own the rest:
//
//   - uapi: the layouts and numbers of everything that is exchanged;
//   - client: the programs, what they hold, and how their memory is accessed;
//   - device: what programs are told about a device;
//   - commands: the commands of rdma/ib_user_verbs.h, on one device each;
//   - ucm: the commands of rdma/rdma_user_cm.h, on all devices;
//   - umad: the calls of rdma/ib_user_mad.h, on one port each.
//
// None of them holds a protocol rule: the adapter and cma do. No address that a
// program names is ever used as an address of this process.
package uverbs
