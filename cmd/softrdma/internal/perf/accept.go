package perf

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
)

const (
	// helloTimeout limits the time until a client has sent its hello.
	helloTimeout = 10 * time.Second

	// setUpTimeout limits the time until a client has connected its queue pairs.
	setUpTimeout = time.Minute

	// maxPending limits the connections that have not sent their hello. Another one replaces
	// the oldest, so silent peers do not keep others out.
	maxPending = 64

	// maxQueued limits the clients that wait while another one measures.
	maxQueued = 64
)

// A peer is a client that has sent its hello.
type peer struct {
	*measure.Control
	conn   net.Conn
	ctx    context.Context // ends with the client
	cancel context.CancelFunc
	hello  *measure.Message
}

func (c *peer) close() {
	c.cancel()
	c.conn.Close()
}

// An acceptor accepts connections to a perf server and reads their hello messages
// concurrently. It prints a note about a peer that is not a perf client, and the server
// keeps waiting.
type acceptor struct {
	clients  chan *peer // have sent their hello
	failures *cli.Throttle

	mu      sync.Mutex
	pending []net.Conn // have not sent their hello, the oldest first
}

// run accepts connections until the listener is closed, and returns its error.
func (a *acceptor) run(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		a.mu.Lock()
		a.pending = append(a.pending, conn)
		if len(a.pending) > maxPending {
			a.pending[0].Close() // readHello fails
			a.pending = a.pending[1:]
		}
		a.mu.Unlock()
		go a.readHello(ctx, conn)
	}
}

func (a *acceptor) readHello(ctx context.Context, conn net.Conn) {
	c := &peer{conn: conn}
	c.Control, c.ctx, c.cancel = measure.NewControl(ctx, conn, conn)
	early, stop := context.WithTimeoutCause(c.ctx, helloTimeout, cli.PeerErrorf("no message from the client for %v", helloTimeout))
	defer stop()
	var err error
	c.hello, err = c.Expect(early, measure.DoHello)
	a.removePending(conn)
	if err == nil {
		select {
		case a.clients <- c:
			return
		default:
			err = cli.PeerErrorf("%d clients are already waiting", cap(a.clients))
		}
	}
	if ctx.Err() == nil {
		a.failures.Printf("%v: %s", c, cli.OneLine(err))
	}
	conn.SetDeadline(time.Now().Add(time.Second))
	c.Fail(err)
	c.close()
}

// removePending removes a connection from those that have not sent their hello.
func (a *acceptor) removePending(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.pending, conn); i >= 0 {
		a.pending = slices.Delete(a.pending, i, i+1)
	}
}

// closeQueued closes clients that were not served.
func (a *acceptor) closeQueued() {
	for {
		select {
		case c := <-a.clients:
			c.close()
		default:
			return
		}
	}
}

// String returns the name of the client in notes.
func (c *peer) String() string { return fmt.Sprint("client ", c.conn.RemoteAddr()) }
