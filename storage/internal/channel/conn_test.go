package channel

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// connect runs a test with the two ends of a connection.
func connect(t *testing.T, test func(t *testing.T, c, peer *Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := bubble.New(1, simnet.LinkConfig{})
		t.Cleanup(w.End)
		var devices [2]*verbs.Device
		for i, address := range []string{"127.0.0.1", "127.0.0.2"} {
			h, err := w.Open(address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { h.Device.Close() })
			devices[i] = h.Device
		}
		l, err := rdmacm.Listen("127.0.0.1:7", rdmacm.ListenConfig{Device: devices[0]})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		cfg := Config{Receives: 4, ReceiveSize: 64, Sends: 4, Memory: 64 << 10}
		var peer *Conn
		var accepted sync.WaitGroup
		accepted.Go(func() {
			if r, err := l.Request(t.Context()); err != nil {
				t.Error(err)
			} else if peer, err = Accept(t.Context(), r, cfg, rdmacm.ConnParam{}); err != nil {
				t.Error(err)
			}
		})
		d := rdmacm.Dialer{Device: devices[1]}
		e, err := d.Resolve(t.Context(), "127.0.0.1:7")
		if err != nil {
			t.Fatal(err)
		}
		c, err := Connect(t.Context(), e, cfg, rdmacm.ConnParam{})
		if err != nil {
			t.Fatal(err)
		}
		accepted.Wait()
		test(t, c, peer)
		err = c.Close()
		if peer.Err() != ErrClosed { // not closed by the test
			err = errors.Join(err, peer.Close())
		}
		if err != nil {
			t.Error(err)
		}
		for _, d := range devices {
			if n := d.Counts(); n != (verbs.Counts{}) {
				t.Errorf("left %+v", n)
			}
		}
	})
}

// TestConnectionEndsAfterRequestsThatWereNotPosted: the queue pair has been flushed before a caller knows
// that its request is not posted, so no completion follows.
func TestConnectionEndsAfterRequestsThatWereNotPosted(t *testing.T) {
	for name, begin := range map[string]func(c *Conn) (end func()){
		"send": func(c *Conn) func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.waiting[9] = &waiter{}
			return func() { c.withdraw(9) }
		},
		"receive": func(c *Conn) func() {
			c.count(1)
			return func() { c.count(-1) }
		},
	} {
		connect(t, func(t *testing.T, c, _ *Conn) {
			end := begin(c)
			c.Fail(ErrClosed)
			synctest.Wait() // the queue pair is flushed, and the connection waits for one completion more
			end()
			synctest.Wait()
			select {
			case <-c.flushed:
			default:
				t.Errorf("%s: the connection waits for a completion that does not come", name)
				c.stop()
			}
		})
	}
}

// TestConnectionEndsWithAllReceivesInUse: the caller has all messages, so none of its receives is flushed.
func TestConnectionEndsWithAllReceivesInUse(t *testing.T) {
	connect(t, func(t *testing.T, c, peer *Conn) {
		b, err := peer.Buffer(8)
		if err != nil {
			t.Fatal(err)
		}
		for range c.cfg.Receives {
			if err := peer.Do(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.SGE(0, 8)}}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Receive(); err != nil {
				t.Fatal(err)
			}
		}
		peer.Put(b)
		if err := peer.Close(); err != nil {
			t.Error(err)
		}
		<-c.Done()
		synctest.Wait()
		select {
		case <-c.flushed:
		default:
			t.Error("the connection waits for a completion that does not come")
			c.stop()
		}
		if _, err := c.Receive(); err == nil {
			t.Error("expected the end of the connection")
		}
	})
}

func TestRequestThatCannotBePostedEndsConnection(t *testing.T) {
	connect(t, func(t *testing.T, c, _ *Conn) {
		b, err := c.Buffer(64)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Put(b)
		if err := c.Do(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.SGE(0, 1), b.SGE(0, 1), b.SGE(0, 1)}}); err == nil || c.Err() == nil {
			t.Errorf("three entries: found %v, %v", err, c.Err())
		}
	})
}
