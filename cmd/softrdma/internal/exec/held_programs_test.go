//go:build interop && linux

package exec

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A held forwards the TCP connections of a client of perftest to its server. Once there is traffic it
// holds what the client says until release is called, so that both programs keep their devices: each
// waits for the other after its last completion. The client says nothing between its last message before
// the traffic, which the server answers, and the end of the traffic.
type held struct {
	ln       net.Listener
	traffic  func() bool
	held     atomic.Bool // a message is held
	released chan struct{}
	once     sync.Once
}

func newHeld(t *testing.T, server string, traffic func() bool) *held {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &held{ln: ln, traffic: traffic, released: make(chan struct{})}
	t.Cleanup(func() {
		h.release()
		_ = ln.Close()
	})
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go h.forward(c, server)
		}
	}()
	return h
}

func (h *held) port() string { return fmt.Sprint(h.ln.Addr().(*net.TCPAddr).Port) }

func (h *held) release() { h.once.Do(func() { close(h.released) }) }

// forward forwards a connection. The server may have not begun to listen.
func (h *held) forward(client net.Conn, server string) {
	defer client.Close()
	to, err := net.Dial("tcp", "127.0.0.1:"+server)
	for ; err != nil; to, err = net.Dial("tcp", "127.0.0.1:"+server) {
		select {
		case <-h.released:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	defer to.Close()
	go func() { _, _ = client.(*net.TCPConn).ReadFrom(to) }()
	for b := make([]byte, 4096); ; {
		n, err := client.Read(b)
		if err != nil {
			return
		}
		if h.traffic() {
			h.held.Store(true)
			<-h.released
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
