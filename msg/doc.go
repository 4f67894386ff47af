// Package msg sends messages between workers, over any device of package verbs: tagged messages,
// which receives pick, active messages, which call handlers, and streams of bytes. It also accesses
// the memory of other workers. It chooses how a message travels: the bytes of short messages are
// sent at once, and the receiver reads long messages from the sender's memory, or lets the sender
// write them. The semantics are those of UCP.
//
// A Worker receives messages from all workers that know its address, which programs exchange
// themselves. Connect makes an Endpoint, which sends to one worker. The other worker gets an
// endpoint, too, with the first active message.
//
//	w, err := msg.NewWorker(dev, msg.Config{})
//	e, err := w.Connect(ctx, address) // from Address of the other worker
//	_, err = e.Send(7, msg.Buffers{data}, nil).Wait(ctx)
//	info, err := w.Receive(msg.Buffers{buf}, 7, msg.All).Wait(ctx)
//
// Without an exchange of addresses, one worker listens on a host and port, and the other dials:
//
//	l, err := w.Listen("192.0.2.1:7471")
//	e, err := l.Accept(ctx) // or l.Request, to look at the request first
//
//	e, err := w.Dial(ctx, "192.0.2.1:7471", nil)
//
// # Matching
//
// A receive names the bits of the tag that count by a mask. A message goes to the oldest posted
// receive that matches, and a receive gets the oldest message that matches. Messages of one
// endpoint are matched in the order in which they were sent.
//
// # Active messages
//
// An active message names a handler of the other worker by an ID, and has a header and data:
//
//	w.Handle(1, func(m *msg.Active) {
//		m.From.SendActive(2, nil, msg.Buffers{answer}, nil) // no address is needed
//	})
//	e.SendActive(1, header, msg.Buffers{data}, nil)
//
// If the data is long, the handler gets only the header, and reads the data into memory of its
// choice with Active.Receive. Header and data that came with the message stay beyond the handler if
// it calls Active.Keep.
//
// # Streams
//
// An endpoint carries a stream of bytes in both directions, too, for programs that need no messages:
//
//	e.SendStream(msg.Buffers{data})
//	info, err := e.ReceiveStream(msg.Buffers{buf}, nil).Wait(ctx) // info.Length bytes
//
// # Pieces
//
// Buffers have a message in pieces of memory, which are gathered and scattered without another copy:
//
//	e.Send(7, msg.Buffers{header, body}, nil)
//
// # Memory
//
// The program owns the bytes of a send and the buffer of a receive. It does not change the bytes
// and does not use the buffer until the request has ended.
//
// A receiving worker keeps messages that no receive has matched: of each peer up to
// Config.Unexpected messages of up to Config.Eager bytes. Further messages, and longer ones, stay
// in the sender's memory, so their requests end only after a receive has matched them. After
// Config.Announced of them, sends wait without any frame. Active messages have a limit of their own,
// Config.Active.
//
// # Remote memory
//
// Map makes a Region of memory that peers can access. They need its key, which programs exchange.
// Remote of an endpoint reads the key; Put, Get and atomic operations of the result access the memory
// without the peer's program:
//
//	region, err := w.Map(buf, msg.AllowAll) // and send region.Key()
//	m, err := e.Remote(key)                 // at the other end
//	m.Put(0, msg.Buffers{data})
//	_, err = e.Flush().Wait(ctx)            // data is in buf
//
// # Rails
//
// A worker can have several devices. Endpoints use all that both workers have, and continue while one
// works:
//
//	w, err := msg.NewWorker(first, msg.Config{Rails: []*verbs.Device{second}})
//
// # Progress
//
// With ProgressPackage, a goroutine of the worker makes progress while no call waits. With
// ProgressCaller the program does: it calls Progress, or Wait or Poll of a request. To sleep until
// something happens, it calls Arm and then waits for the channel of Wakeup or the descriptor of
// Descriptor:
//
//	for w.Progress() > 0 || !w.Arm() {
//	}
//	<-w.Wakeup()
//
// # Errors
//
// Each request ends once. When a peer fails or closes, the requests that wait for it end with an
// error that matches ErrPeer, at most about Config.PeerTimeout after the failure. Receives that
// no message of the peer was matched with continue, because another peer may send. A receive whose
// buffer is shorter than the message ends with ErrTruncated, a canceled receive with ErrCanceled.
//
// # The end
//
// Close of an endpoint waits until what this worker has sent is in the peer's worker. If the peer
// closes at the same time, that cannot be known any more, and Close returns an error that matches
// ErrPeerClosed. So programs in which all workers end together, such as rings and grids, first make
// sure that nothing is under way: each sends its last message to a peer with the option Sync, whose request
// ends when the peer has received it, and waits for it and for its own receives. Then everything has
// arrived, and ErrPeerClosed from Close only says that the peer was faster.
//
// Methods may be called from any goroutine. The package holds no protocol rule: package
// internal/message decides which frames are sent.
package msg
