//go:build linux && !softrdma_portable

package udp

import (
	"errors"
	"testing"
	"time"

	"softrdma/internal/link"
)

// New connections reuse the socket of an ended one, and packets leave correctly. Network
// errors of the former user are gone.
func TestFlowWithoutUsersIsTakenAgain(t *testing.T) {
	for _, host := range loopbacks(t) {
		a, b := pair(t, host, Config{})
		gone, _ := pair(t, host, Config{})
		var first *link.DatagramFlow
		for i := range uint32(3 * keptFlows) {
			f := openFlow(t, a, b.Local(), i)
			if first == nil {
				first = f
			}
			if f.Src != first.Src {
				t.Fatalf("%s: connection %d leaves from %v, expected the former's %v", host, i, f.Src, first.Src)
			}
			p := pattern(64 + int(i))
			send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{p}, Bytes: len(p), Size: len(p)})
			if got := receiveAll(t, b, len(p)); string(got) != string(p) {
				t.Fatalf("%s: other bytes", host)
			}
			a.CloseFlow(&f.Flow)
			if err := a.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{p}, Bytes: len(p), Size: len(p)}); !errors.Is(err, ErrFlow) {
				t.Errorf("%s: sent on a closed flow: %v", host, err)
			}
		}
		if n := a.flows.sockets; n != 1 {
			t.Errorf("%s: %d sockets", host, n)
		}
		// Flows beyond the limit of kept ones are closed.
		var all []*link.DatagramFlow
		for i := range uint32(3 * keptFlows) {
			all = append(all, openFlow(t, a, gone.Local(), i))
		}
		for _, f := range all {
			a.CloseFlow(&f.Flow)
		}
		if n := a.flows.sockets; n != keptFlows {
			t.Errorf("%s: %d sockets kept, expected %d", host, n, keptFlows)
		}
		to := gone.Local()
		if err := gone.Close(); err != nil {
			t.Fatal(err)
		}
		p := pattern(64)
		f := openFlow(t, a, to, 1)
		_ = a.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{p}, Bytes: len(p), Size: len(p)}) // the port is closed
		a.CloseFlow(&f.Flow)
		f = openFlow(t, a, to, 1)
		if err := a.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{p}, Bytes: len(p), Size: len(p)}); err != nil {
			t.Errorf("%s: the next user hears of the former's packet: %v", host, err)
		}
	}
}

// Kept sockets are closed when nothing has been received for a while.
func TestFlowsWithoutUsersAreClosedInTime(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	a.CloseFlow(&openFlow(t, a, b.Local(), 1).Flow)
	if n := a.flows.sockets; n != 1 {
		t.Fatalf("%d sockets kept, expected 1", n)
	}
	if err := a.Wait(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	var rx link.Rx
	if _, err := a.Receive(&rx); err != nil || a.flows.sockets != 0 {
		t.Errorf("%d sockets, %v", a.flows.sockets, err)
	}
	a.Wake()
	if err := a.Wait(-1); err != nil || a.quiet.Load() != 0 {
		t.Errorf("%v, nothing received for %v", err, time.Duration(a.quiet.Load()))
	}
}

// A flow back leaves from the port where the link receives, however many users it has, beside flows with ports of their own.
func TestReturnFlowLeavesFromTheReceivingPort(t *testing.T) {
	for _, host := range loopbacks(t) {
		a, b := pair(t, host, Config{})
		other := openFlow(t, a, b.Local(), 1)
		var flows [2]*link.DatagramFlow
		for i := range flows {
			var err error
			if flows[i], err = a.OpenReturn(b.Local()); err != nil {
				t.Fatal(err)
			}
		}
		f := flows[0]
		if f != flows[1] || f.Src != a.Local() || f.Dst != b.Local() || other.Src == f.Src {
			t.Fatalf("%s: %v to %v and %v to %v, beside one from %v", host, f.Src, f.Dst, flows[1].Src, flows[1].Dst, other.Src)
		}
		p := pattern(5000)
		for range flows {
			send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{p}, Bytes: len(p), Size: 1000})
			var rx link.Rx
			for got := 0; got < len(p); got += len(rx.Data) {
				if receive(t, b, &rx); rx.Src != a.Local() || string(rx.Data) != string(p[got:got+len(rx.Data)]) {
					t.Fatalf("%s: %d bytes from %v", host, len(rx.Data), rx.Src)
				}
			}
			a.CloseFlow(&f.Flow)
		}
		if err := a.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{p}, Bytes: len(p), Size: 1000}); !errors.Is(err, ErrFlow) {
			t.Errorf("%s: sent on a closed flow: %v", host, err)
		}
		if f, err := a.OpenReturn(b.Local()); err != nil || f.Src != a.Local() {
			t.Errorf("%s: opened again: %v", host, err)
		}
	}
}
