// Package rdmanet gives RDMA connections the shape of package net: Dial and
// Listen, net.Conn and net.Listener. Programs that use those interfaces run over
// RDMA unchanged:
//
//	l, err := rdmanet.Listen("rdma", ":8080")
//	err = http.Serve(l, handler)
//
//	client := &http.Client{Transport: &http.Transport{DialContext: rdmanet.DialContext}}
//	page, err := client.Get("http://192.0.2.1:8080/")
//
// crypto/tls accepts these connections and listeners like those of TCP. gRPC uses
// them through grpc.Server.Serve and grpc.WithContextDialer. See the examples
// http, tls and grpc.
//
// # Peers
//
// The wire protocol is rsockets, the sockets of librdmacm, over connections of
// package rdmacm. The peer can be a program that uses this package, one that calls
// rsocket, or any socket program under librspreload.so. Package
// rdmanet/internal/rsocket holds the protocol, which has one version. Only streams
// are supported; rsockets' datagrams are another protocol. Over iWARP a message is
// a SEND after the WRITE of its data, as in rsockets.
//
// # Differences from TCP
//
// Read, Write, deadlines, half-close, io.ReaderFrom and io.WriterTo, EPIPE
// and net.ErrClosed behave as with a *net.TCPConn, and addresses are
// *net.TCPAddr. Errors are *net.OpError and wrap the named reason of package
// verbs or rdmacm. The differences are:
//
//   - Close waits for up to Options.Linger until the peer's device has
//     acknowledged all written data, because no kernel would send it later. On
//     iWARP the acknowledgment is the answer to a READ. C programs on rsockets
//     cannot be relied on to give it: then Close waits until this host's TCP has the data. To know that such a peer has
//     read everything, call CloseWrite and read to the end of its answer.
//   - By default a connection registers two megabytes of memory, of which only the
//     touched part is in use. Both buffers grow on a path with a round trip of more
//     than a millisecond, if the stream fills them, and become smaller again when less
//     is sent (see grow.go). All connections of a device grow by at most a gigabyte.
//     Towards librdmacm's rsockets over iWARP the receive buffer does not grow.
//   - The stream ends only if the peer closes the connection or its direction. If
//     the peer is killed, or exits without closing, Read returns a *CutError, which
//     wraps io.ErrUnexpectedEOF, where TCP would return io.EOF. Keep-alives, every
//     15 seconds by default, detect a machine that fails.
//   - SetLinger(0) and Close abandon the connection: the peer reads a *CutError.
//   - Data that arrives after CloseRead is discarded at the program's next call.
//
// # How it works
//
// A Write copies to registered memory and posts an RDMA WRITE into the peer's
// receive buffer; a Read copies out of it. ReadFrom and WriteTo avoid one of the
// two copies. A connection needs no goroutine: waiting calls poll the completion
// queue and then sleep on it, and without a waiting call the peer still makes
// progress (see wait.go). Neither reading nor writing allocates.
//
// A program can map memory for the peer, which then writes to it without a copy
// and without a reader: MapMemory and WriteMapped are rsockets' riomap and
// riowrite.
//
// # What it never does
//
// The package implements no rules of RDMA's transports or of the connection
// manager, and keeps no state outside its listeners and connections.
package rdmanet
