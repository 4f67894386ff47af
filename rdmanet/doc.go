// Package rdmanet gives RDMA connections the shape of package net: Dial and
// Listen, net.Conn and net.Listener. What runs on those runs over RDMA
// unchanged:
//
//	l, err := rdmanet.Listen("rdma", ":8080")
//	err = http.Serve(l, handler)
//
//	client := &http.Client{Transport: &http.Transport{DialContext: rdmanet.DialContext}}
//	page, err := client.Get("http://192.0.2.1:8080/")
//
// crypto/tls takes a connection or listener as it takes TCP's, gRPC by
// grpc.Server.Serve and grpc.WithContextDialer. See the examples http, tls and
// grpc.
//
// # The other end
//
// On the wire it is rsockets, the sockets of librdmacm, over connections of
// package rdmacm: the peer is another program on this package, one that calls
// rsocket, or any program for sockets under librspreload.so. Both speak one
// version of one protocol, which package rdmanet/internal/rsocket holds. Only
// streams; rsockets' datagrams are another protocol. Over iWARP a message is a
// SEND behind the WRITE of its data, as rsockets have it there.
//
// # As TCP has it, and where not
//
// Read, Write, deadlines, half-close, io.ReaderFrom and io.WriterTo, EPIPE
// and net.ErrClosed are as a *net.TCPConn has them, and addresses are
// *net.TCPAddr. Errors are *net.OpError and wrap the named reason of package
// verbs or rdmacm. What differs:
//
//   - Close waits until the peer's device has got what was written, for up to
//     Options.Linger: there is no kernel that would go on with it.
//   - Buffers have the size of Options and do not grow: together a megabyte of
//     registered memory for each connection by default, of which is used what
//     was once needed.
//   - Only a peer that closes the connection or its direction ends the stream.
//     One that is killed, or exits without closing, does not: Read returns a
//     *CutError, which is io.ErrUnexpectedEOF, where TCP would return io.EOF. A
//     machine that dies is found out by keep-alives, every 15 seconds by
//     default.
//   - SetLinger(0) and Close abandon the connection: the peer reads a *CutError.
//   - Data that comes after CloseRead is thrown away when the program calls
//     something.
//
// # How it works
//
// A Write copies to registered memory and posts an RDMA WRITE into the peer's
// receive buffer; a Read copies out of it. ReadFrom and WriteTo leave one of the
// two copies out. A connection needs no goroutine: calls that wait poll the
// completion queue and then sleep on it, and one that is not waited on owes its
// peer nothing (see wait.go). Neither reading nor writing allocates.
//
// Memory of the program can be mapped for the peer, which then writes there
// without a copy and without a reader: MapMemory and WriteMapped are rsockets'
// riomap and riowrite.
//
// # What it never does
//
// The package holds no rule of RDMA's transports and none of the connection
// manager, and keeps no state beside its listeners and connections.
package rdmanet
