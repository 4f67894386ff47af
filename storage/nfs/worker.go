package nfs

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"softrdma/storage/rpcrdma"
)

// errAbandoned says that go-nfs has given up a call without a reply.
var errAbandoned = errors.New("NFS call was given up without a reply")

// workers are the connections that go-nfs serves. It executes the calls of a connection one after the
// other, so each call gets a connection of its own while it is executed. It is a net.Listener.
type workers struct {
	fresh chan *worker
	ended chan struct{}
	once  *sync.Once
	idle  chan *worker
}

// maxIdle is how many workers are kept between calls.
const maxIdle = 64

func newWorkers() workers {
	return workers{make(chan *worker), make(chan struct{}), new(sync.Once), make(chan *worker, maxIdle)}
}

// call executes a call. The reply is written to the front of a buffer.
func (ws *workers) call(call, reply []byte) (int, error) {
	var w *worker
	select {
	case w = <-ws.idle:
	default:
		w = newWorker()
		select {
		case ws.fresh <- w:
		case <-ws.ended:
			return 0, net.ErrClosed
		}
	}
	n, err := w.call(call, reply)
	if err != nil && !errors.Is(err, rpcrdma.ErrReplySize) {
		_ = w.Close()
		return 0, err
	}
	select {
	case ws.idle <- w:
	default:
		_ = w.Close()
	}
	return n, err
}

// end ends the workers.
func (ws *workers) end() {
	ws.once.Do(func() { close(ws.ended) })
	for {
		select {
		case w := <-ws.idle:
			_ = w.Close()
		default:
			return
		}
	}
}

// Accept implements net.Listener.
func (ws *workers) Accept() (net.Conn, error) {
	select {
	case w := <-ws.fresh:
		return w, nil
	case <-ws.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (ws *workers) Close() error { return nil }

// Addr implements net.Listener.
func (ws *workers) Addr() net.Addr { return address{} }

type address struct{}

func (address) Network() string { return "rdma" }
func (address) String() string  { return "rdma" }

// markLen is the length of a record mark (RFC 5531 11), markLast its flag of a record's last fragment.
const (
	markLen  = 4
	markLast = 1 << 31
)

// A worker is a connection with record marks whose other end is in this process. Call gives it a record
// and takes the next.
type worker struct {
	calls  chan []byte
	done   chan error
	closed chan struct{}
	once   sync.Once

	mark [markLen]byte
	in   [][]byte // what the reader has not taken

	// The reply.
	reply []byte
	got   int // bytes, with the mark
	want  int
}

func newWorker() *worker {
	return &worker{calls: make(chan []byte), done: make(chan error, 1), closed: make(chan struct{})}
}

func (w *worker) call(call, reply []byte) (int, error) {
	w.reply, w.got, w.want = reply, 0, 0
	select {
	case w.calls <- call:
	case <-w.closed:
		return 0, errAbandoned
	}
	select {
	case err := <-w.done:
		return w.want, err
	case <-w.closed:
		return 0, errAbandoned
	}
}

// Read implements net.Conn.
func (w *worker) Read(p []byte) (n int, err error) {
	if len(w.in) == 0 {
		select {
		case call := <-w.calls:
			binary.BigEndian.PutUint32(w.mark[:], uint32(len(call))|markLast)
			w.in = append(w.in[:0], w.mark[:], call)
		case <-w.closed:
			return 0, io.EOF
		}
	}
	for len(w.in) > 0 && n < len(p) {
		k := copy(p[n:], w.in[0])
		n += k
		if w.in[0] = w.in[0][k:]; len(w.in[0]) == 0 {
			w.in = w.in[1:]
		}
	}
	return n, nil
}

// Write implements net.Conn.
func (w *worker) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if w.got < markLen {
			k := copy(w.mark[w.got:], rest)
			w.got += k
			rest = rest[k:]
			if w.got == markLen {
				w.want = int(binary.BigEndian.Uint32(w.mark[:]) &^ markLast)
			}
			continue
		}
		at := w.got - markLen
		if at < len(w.reply) {
			copy(w.reply[at:], rest)
		}
		w.got += len(rest)
		rest = nil
	}
	if w.got >= markLen && w.got-markLen >= w.want {
		if w.want > len(w.reply) {
			w.done <- rpcrdma.ErrReplySize
		} else {
			w.done <- nil
		}
	}
	return len(p), nil
}

// Close implements net.Conn.
func (w *worker) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

// LocalAddr implements net.Conn.
func (w *worker) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements net.Conn.
func (w *worker) RemoteAddr() net.Addr { return address{} }

// SetDeadline implements net.Conn. go-nfs sets none.
func (w *worker) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (w *worker) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (w *worker) SetWriteDeadline(time.Time) error { return nil }
