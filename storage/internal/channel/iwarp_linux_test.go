package channel

import (
	"errors"
	"sync"
	"testing"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// TestPeerEndsStreamInOrder: the peer of an iWARP connection closes the stream, which flushes the receives before
// the connection's event arrives. Err says who disconnected, and not that a receive was flushed (RFC 5040 6.2).
func TestPeerEndsStreamInOrder(t *testing.T) {
	var devices [2]*verbs.Device
	for i, address := range []string{"iwarp:127.0.47.1", "iwarp:127.0.47.2"} {
		d, err := verbs.Open(address, verbs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		devices[i] = d
	}
	l, err := rdmacm.Listen("127.0.47.1:0", rdmacm.ListenConfig{Device: devices[0], Protocol: verbs.IWARP})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := Config{Receives: 4, ReceiveSize: 64, Sends: 4, Memory: 64 << 10}
	for range 20 {
		var server *Conn
		var accepted sync.WaitGroup
		accepted.Go(func() {
			r, err := l.Request(t.Context())
			if err == nil {
				server, err = Accept(t.Context(), r, cfg, rdmacm.ConnParam{})
			}
			if err != nil {
				t.Error(err)
			}
		})
		d := rdmacm.Dialer{Device: devices[1], Protocol: verbs.IWARP}
		e, err := d.Resolve(t.Context(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		client, err := Connect(t.Context(), e, cfg, rdmacm.ConnParam{})
		if err != nil {
			t.Fatal(err)
		}
		accepted.Wait()
		if t.Failed() {
			return
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		<-server.Done()
		if err := server.Err(); !errors.Is(err, rdmacm.ErrDisconnected) {
			t.Errorf("ended with %v, want %v", err, rdmacm.ErrDisconnected)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
}
