//go:build unix

package msg_test

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"softrdma/msg"
)

// stop stops a child process and waits until it has stopped.
func stop(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v, status %#x", err, status)
	}
}

// A peer that stops while nothing is sent is found within the configured time, once. Requests that
// wait end, and so do those that begin afterwards.
func TestIdlePeerThatStopsIsFound(t *testing.T) {
	failed := make(chan error, 10)
	c := msg.Config{PeerTimeout: 2 * time.Second, Failed: func(_ *msg.Endpoint, err error) { failed <- err }}
	each(t, c, func(t *testing.T, a, _ *msg.Worker) {
		p, address, key := startPeer(t)
		e, err := a.Connect(within(t), address)
		if err != nil {
			t.Fatal(err)
		}
		m, err := e.Remote(key)
		if err != nil {
			t.Fatal(err)
		}
		waiting := e.ReceiveStream(msg.Buffers{make([]byte, 1)}, nil)
		wait(t, e.Flush())
		stop(t, p.Process())
		if err := next(t, failed); !errors.Is(err, msg.ErrPeer) {
			t.Errorf("%v, expected %v", err, msg.ErrPeer)
		}
		buf := make([]byte, 1)
		for i, r := range []*msg.Request{
			waiting, e.Send(1, nil, nil), e.Send(1, nil, &msg.SendOptions{Sync: true}), e.SendActive(1, nil, nil, nil), e.SendStream(msg.Buffers{buf}), e.ReceiveStream(msg.Buffers{buf}, nil),
			e.Flush(), m.Get(0, msg.Buffers{buf}),
		} {
			if _, err := r.Wait(within(t)); !errors.Is(err, msg.ErrPeer) {
				t.Errorf("request %d after the failure: %v, expected %v", i, err, msg.ErrPeer)
			}
		}
		if _, err := e.TakeStream(); !errors.Is(err, msg.ErrPeer) {
			t.Errorf("take after the failure: %v, expected %v", err, msg.ErrPeer)
		}
		if err := e.Close(within(t)); err != nil {
			t.Errorf("close after the failure: %v", err)
		}
		if len(failed) > 0 {
			t.Errorf("a second failure: %v", <-failed)
		}
	})
}

// A flush says that the other worker has the messages, so it fails if that has stopped.
func TestFlushOfMessagesToAStoppedPeerFails(t *testing.T) {
	each(t, msg.Config{PeerTimeout: 2 * time.Second}, func(t *testing.T, a, _ *msg.Worker) {
		p, address, _ := startPeer(t)
		e, err := a.Connect(within(t), address)
		if err != nil {
			t.Fatal(err)
		}
		stop(t, p.Process())
		wait(t, e.Send(1, nil, nil)) // it is in the send queue
		if _, err := e.Flush().Wait(within(t)); !errors.Is(err, msg.ErrPeer) {
			t.Errorf("%v, expected %v", err, msg.ErrPeer)
		}
	})
}
