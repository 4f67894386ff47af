package msg

import (
	"softrdma/internal/message"
)

// A Chunk is bytes of a stream that Endpoint.TakeStream took.
type Chunk struct {
	Bytes []byte

	w *Worker
	c *message.Chunk
}

// SendStream sends bytes of at most verbs.MaxMessage to the endpoint's stream: the bytes that the
// other end receives with ReceiveStream or TakeStream, in order. They have no borders. The request
// ends when the program may change data again, which is when the peer has room for the bytes:
// Config.Stream.
func (e *Endpoint) SendStream(data Buffers) *Request {
	w := e.c.w
	w.e.Lock()
	defer w.unlock()
	r := w.request()
	r.send.Data, r.send.Length = r.pieces(data)
	r.send.Class = message.Stream
	e.post(r)
	return r
}

// ReceiveStream receives bytes of the peer's stream: those that are there, or else the next that
// arrive. Info has their number, which is 0 only for an empty buf. Receives of an endpoint get
// bytes in the order in which they began. After a failure of the peer, bytes that had arrived can
// still be received.
func (e *Endpoint) ReceiveStream(buf Buffers, o *StreamOptions) *Request {
	w := e.c.w
	w.e.Lock()
	defer w.unlock()
	r := w.request()
	r.receive.Buffer, r.receive.Length = r.pieces(buf)
	r.stream, r.receive.Context, r.receive.All = e.c, r, o != nil && o.Full
	w.machine.ReceiveStream(e.c.peer, &r.receive)
	w.e.Flush()
	return r
}

// TakeStream takes bytes of the peer's stream that have arrived, without a copy, or returns nil if
// there are none. If the peer has failed and there are none, it returns the endpoint's error. The
// program releases the chunk. It counts against Config.Stream until then.
func (e *Endpoint) TakeStream() (*Chunk, error) {
	w := e.c.w
	w.e.Lock()
	defer w.unlock()
	w.progress()
	c, err := w.machine.TakeStream(e.c.peer)
	if c == nil {
		return nil, err
	}
	return &Chunk{c.Bytes, w, c}, nil
}

// Release gives the chunk back. The program must not use its bytes any more. A second Release does
// nothing.
func (c *Chunk) Release() {
	w := c.w
	w.e.Lock()
	defer w.unlock()
	if c.c != nil {
		w.machine.ReleaseChunk(c.c)
		c.c = nil
		w.e.Flush()
	}
}

// Readable puts endpoints whose streams have bytes to read into a list, and returns their number. If
// there are more than the list has room for, the next call begins with the others.
func (w *Worker) Readable(list []*Endpoint) int {
	w.e.Lock()
	defer w.unlock()
	w.progress()
	if cap(w.peers) < len(list) {
		w.peers = make([]*message.Peer, 0, len(list))
	}
	peers := w.machine.Readable(w.peers[:0:len(list)])
	for i, p := range peers {
		list[i] = &p.Context.(*connection).endpoint
	}
	clear(peers)
	return len(peers)
}
