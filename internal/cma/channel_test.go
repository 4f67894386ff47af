package cma_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/cma"
	"softrdma/internal/cmid"
)

func TestMigrateMovesQueuedEvents(t *testing.T) {
	w := newWorld(t)
	l := w.server.listen(cmid.PortSpaceTCP, server4, 0)
	stays := w.server.id(cmid.PortSpaceTCP)
	must(t, stays.ResolveAddr(netip.AddrPort{}, at(client4)))
	w.client.connecting(cmid.PortSpaceTCP, server4)
	w.client.connecting(cmid.PortSpaceTCP, server4)
	w.net.Sleep(time.Second) // both requests are queued in the channel

	other := w.server.m.NewChannel()
	must(t, l.Migrate(other))
	if l.Channel() != other {
		t.Error("the id stayed")
	}
	if e := w.server.next(cmid.EventAddrResolved); e.ID != stays {
		t.Errorf("event of %v", e.ID)
	}
	w.server.quiet(time.Second)
	first := next(t, w.server, other, cmid.EventConnectRequest).ID
	second := next(t, w.server, other, cmid.EventConnectRequest).ID
	if first.Channel() != other || second.Channel() != other {
		t.Error("new ids were not destroyed")
	}
	// Later events arrive on the new channel. Move one id once more.
	w.client.connecting(cmid.PortSpaceTCP, server4)
	next(t, w.server, other, cmid.EventConnectRequest)
	must(t, first.Migrate(w.server.ch))
	must(t, first.Accept(&cmid.ConnParam{QPN: 3}))
	must(t, w.client.next(cmid.EventConnectResponse).ID.Accept(nil))
	if e := w.server.next(cmid.EventEstablished); e.ID != first {
		t.Errorf("event of %v", e.ID)
	}
	must(t, other.Close())
	if err := first.Migrate(other); !errors.Is(err, cmid.ErrClosed) {
		t.Errorf("to a closed channel: %v", err)
	}
	w.end()
}

func TestNextReturnsWhenContextOrChannelEnds(t *testing.T) {
	w := newWorld(t)
	ch := w.client.m.NewChannel()
	if _, err := ch.Next(over); !errors.Is(err, context.Canceled) {
		t.Errorf("context over: %v", err)
	}
	id, err := ch.NewID(cmid.PortSpaceTCP, 0)
	must(t, err)
	must(t, id.ResolveAddr(netip.AddrPort{}, at(server4)))
	if e, err := ch.Next(over); err != nil || e.Type != cmid.EventAddrResolved {
		t.Errorf("found an event: %v, %v", e.Type, err)
	}
	done := make(chan error)
	for range 2 {
		go func() {
			_, err := ch.Next(context.Background())
			done <- err
		}()
	}
	must(t, ch.Close())
	must(t, ch.Close())
	for range 2 {
		if err := <-done; !errors.Is(err, cmid.ErrClosed) {
			t.Errorf("channel closed: %v", err)
		}
	}
	if id.State() != cmid.Destroying {
		t.Errorf("id of a closed channel in state %v", id.State())
	}
	if _, err := ch.NewID(cmid.PortSpaceTCP, 0); !errors.Is(err, cmid.ErrClosed) {
		t.Errorf("new id: %v", err)
	}
	w.end()
}

// Every waiter gets one event, and none keeps waiting while there are events.
func TestNextWakesEveryWaiter(t *testing.T) {
	w := newWorld(t)
	ch := w.client.m.NewChannel()
	const waiters = 8
	got := make(chan *cma.ID)
	for range waiters {
		go func() {
			e, err := ch.Next(context.Background())
			if err != nil {
				t.Error(err)
			}
			got <- e.ID
		}()
	}
	for range waiters {
		id, err := ch.NewID(cmid.PortSpaceTCP, 0)
		must(t, err)
		must(t, id.ResolveAddr(netip.AddrPort{}, at(server4)))
	}
	seen := make(map[*cma.ID]bool)
	for range waiters {
		seen[<-got] = true
	}
	if len(seen) != waiters {
		t.Errorf("%d events of %d", len(seen), waiters)
	}
	must(t, ch.Close())
	w.end()
}
