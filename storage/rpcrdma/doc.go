// Package rpcrdma serves ONC RPC over RDMA: RPC-over-RDMA version 1 (RFC 8166), as Linux's client
// speaks it. It carries any RPC service. NFS is in package storage/nfs.
//
// A [Server] accepts connections on a listener of package rdmacm. A [Service] executes calls; it knows
// nothing of RDMA. It gets the bytes of a call and writes those of the reply, and says where in the
// reply the data items are that a client may want in memory of its own: the upper-layer binding.
//
//	l, err := rdmacm.Listen(":20049", rdmacm.ListenConfig{})
//	s := rpcrdma.Server{Service: service}
//	err = s.Serve(ctx, l)
//
// # How a call travels
//
// A short call and its reply are one SEND each. The client registers memory for what is longer, and
// names it in the header of its call:
//
//   - Read chunks hold data that belongs at a position of the call. The server READs them there.
//     A chunk at position zero is the call itself.
//   - Write chunks receive data items of the reply. The server WRITEs each from its place in the reply.
//   - A reply chunk receives the reply itself.
//
// Call, reply and what is sent of them share one registered buffer, so the bytes are copied once by
// the service, if at all. The reply invalidates the client's key if the client allows that and has
// named only one.
//
// # Limits
//
// Each client may have [Config.Credits] calls in flight; others wait in the client. Each may use
// [Config.Memory] bytes of buffers; calls for which none are left wait. Calls and replies have at most
// [Config.MaxMessage] bytes. Chunks that are not valid, or too small for the reply, are answered with
// ERR_CHUNK; the connection remains.
//
// The server keeps no replies. A client repeats calls after it has connected again; a service that must
// not execute them twice keeps their replies for [ClientOf] the call.
package rpcrdma
