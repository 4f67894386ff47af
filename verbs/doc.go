// Package verbs gives Go programs the RDMA verbs on any network adapter: the
// operations of libibverbs in user space, over plain UDP as RoCE v2 or over TCP
// as iWARP (see Open), without RDMA hardware, kernel module or privileges.
//
// A program opens a [Device] by network interface or local address, allocates
// a protection domain ([PD]), registers memory ([MR]), creates completion
// queues ([CQ]) and queue pairs ([QP]), tells the peer where they are (out of
// band), connects and posts work:
//
//	dev, err := verbs.OpenRoCE(ctx, "127.0.0.1", verbs.RoCEConfig{})
//	pd, err := dev.AllocPD()
//	mr, err := pd.RegisterMemory(make([]byte, 4096), verbs.LocalWrite|verbs.RemoteWrite)
//	cq, err := dev.CreateCQ(verbs.CQConfig{Depth: 16})
//	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
//	local := qp.Endpoint() // tell the peer, and learn its own: remote
//	err = qp.Connect(local, remote, verbs.ConnectConfig{})
//	err = qp.PostSend(verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
//		SGL: []verbs.SGE{mr.SGE(0, 8)}, RemoteAddr: addr, RKey: rkey})
//	wc, err := cq.WaitOne(ctx) // or poll: n, err := cq.Poll(wcs)
//
// # Progress
//
// Posting transmits on the caller's goroutine, and polling an empty queue
// receives on it, so no other goroutine stands between a program that polls and
// the network. For programs that do not poll, the device has a goroutine that
// sleeps in the kernel while nothing happens. The target of one-sided operations
// need not call anything.
//
// # Memory
//
// The program owns registered memory. Between the posting of a work request and
// its completion the device may read (send) or write (receive, READ) the memory
// that the request names. Remote peers may access a region as long as it is
// registered with remote rights. As with hardware, the program synchronises with
// its peer by completions, or by atomics on the memory.
//
// # Errors
//
// Errors say what was expected and what was found. They match the sentinels of
// this package by errors.Is, and have a named reason for errors.As: see
// [ReasonError] and `softrdma explain`. Errors about what this build or transport
// cannot do wrap errors.ErrUnsupported. Completions carry the status of
// ibv_wc_status and the named reason: see [WC.Err].
//
// The package is the driver of a device in this process. It writes and reads rings and
// holds no protocol rules.
//
// Methods may be called from any goroutine unless they say otherwise. The numbers
// of constants are those of libibverbs. `go doc -all softrdma/verbs.TYPE` lists
// the constants of a type.
package verbs
