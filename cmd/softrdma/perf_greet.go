package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// helloLimit is how long a peer may take to say what it wants.
	helloLimit = 10 * time.Second

	// setupLimit is how long it may then take to connect its queue pairs and begin.
	setupLimit = time.Minute

	// maxStrangers limits the connections that have not sent their hello. One more
	// replaces the oldest, so silent peers do not keep others out.
	maxStrangers = 64

	// maxQueued bounds the clients that wait while another one measures.
	maxQueued = 64
)

// A perfPeer is a client that has connected, with the hello that it said.
type perfPeer struct {
	*control
	conn   net.Conn
	ctx    context.Context // ends with the client
	cancel context.CancelFunc
	hello  *controlMessage
}

func (c *perfPeer) close() {
	c.cancel()
	c.conn.Close()
}

// A greeter accepts connections to a perf server and reads their hello messages
// concurrently. It prints a note about a peer that is not a perf client, and the
// server keeps waiting.
type greeter struct {
	clients  chan *perfPeer // that have said hello
	failures *throttle

	mu      sync.Mutex
	waiting []net.Conn // that have not said hello, the oldest first
}

// greet accepts connections until the listener is closed, and returns its error.
func (g *greeter) greet(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		g.mu.Lock()
		if g.waiting = append(g.waiting, conn); len(g.waiting) > maxStrangers {
			g.waiting[0].Close() // its greeting fails
			g.waiting = g.waiting[1:]
		}
		g.mu.Unlock()
		go g.one(ctx, conn)
	}
}

func (g *greeter) one(ctx context.Context, conn net.Conn) {
	c := &perfPeer{conn: conn}
	c.control, c.ctx, c.cancel = newControl(ctx, conn, conn)
	early, stop := context.WithTimeoutCause(c.ctx, helloLimit, peerErrorf("the client said nothing for %v", helloLimit))
	defer stop()
	var err error
	c.hello, err = c.expect(early, doHello)
	g.forget(conn)
	if err == nil {
		select {
		case g.clients <- c:
			return
		default:
			err = peerErrorf("%d clients wait already", cap(g.clients))
		}
	}
	if ctx.Err() == nil {
		g.failures.line("%v: %s", c, oneLine(err))
	}
	conn.SetDeadline(time.Now().Add(time.Second))
	c.fail(err)
	c.close()
}

// forget removes a connection from those that have not sent their hello.
func (g *greeter) forget(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, conn); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
}

// end closes the clients that were not served.
func (g *greeter) end() {
	for {
		select {
		case c := <-g.clients:
			c.close()
		default:
			return
		}
	}
}

// String names the client in notes.
func (c *perfPeer) String() string { return fmt.Sprint("client ", c.conn.RemoteAddr()) }
