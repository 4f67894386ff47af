// Package nbd serves a block device by the NBD protocol (network block device, its document
// doc/proto.md): the fixed newstyle handshake, and simple or structured replies. QEMU, qemu-img,
// nbdcopy and Linux's nbd-client are clients.
//
//	s := &nbd.Server{Backend: disk}
//	err := s.Serve(ctx, listener)
//
// The package knows nothing of RDMA: what stores the blocks is a block.Backend. There is no
// encryption and no authentication, so it is for Unix sockets and the loopback address.
package nbd
