// Package uverbs serves the kernel's interface of RDMA devices to programs that
// know nothing of softrdma: the commands of rdma/ib_user_verbs.h and
// ib_user_ioctl_cmds.h, the queues of rdma_user_rxe.h and siw-abi.h, and the
// sysfs files and netlink messages beside them. A small preloaded library
// forwards the program's system calls on device files over a Unix socket; the
// program's own libibverbs and its rxe and siw providers do the rest.
//
// It owns what belongs to a client: its files, the objects behind their
// handles, the memory shared with it, and the descriptors that tell it of
// events. All go when the client's files go. What the objects do is the
// adapter's; no protocol rule is held here, and no address that a program names
// is ever used as one of this process.
package uverbs
