package rdmacm

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestContextEndsDialWaitingForReply(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	requests := make(chan *Request, 1)
	go func() {
		r, err := l.Request(within(t)) // no request arrives
		if err != nil {
			t.Error(err)
		}
		requests <- r
		cancel()
	}()
	d := client()
	_, err := d.Dial(ctx, l.Addr().String())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("expected %v, found %v", context.Canceled, err)
	}
	wants(t, err, "expected the reply of "+l.Addr().String())
	r := <-requests
	if r == nil {
		t.FailNow()
	}
	eventually(t, "a request that is void", func() bool {
		_, err := r.end.id.InitAttr()
		return err != nil
	})
	if err := r.Reject(nil); err != nil {
		t.Errorf("the peer waits no longer, found %v", err)
	}
}

func TestContextEndedBeforeDialSendsNothing(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d := client()
	if _, err := d.Dial(ctx, l.Addr().String()); !errors.Is(err, context.Canceled) {
		t.Errorf("expected %v, found %v", context.Canceled, err)
	}
	// The next one is the first request.
	d.Param.PrivateData = []byte("second")
	connected(t, l, d)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.requests) != 0 {
		t.Errorf("expected no requests left, found %d", len(l.requests))
	}
}

func TestContextEndsAcceptWithoutPeers(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Accept: expected %v, found %v", context.DeadlineExceeded, err)
	}
	if _, err := l.Request(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Request: expected %v, found %v", context.DeadlineExceeded, err)
	}
	connected(t, l, client()) // it still works
}

// A silent peer requests a connection and never confirms it: an id without a queue pair whose
// program does not call Establish.
func silentPeer(t *testing.T, to *Listener) *EventChannel {
	t.Helper()
	ch := NewEventChannel()
	id := newID(t, ch, PortSpaceTCP)
	t.Cleanup(func() {
		if err := errors.Join(id.Destroy(), ch.Close()); err != nil {
			t.Error(err)
		}
	})
	toRoute(t, ch, id, to)
	if err := id.Connect(&ConnParam{QPN: 77}); err != nil {
		t.Fatal(err)
	}
	return ch
}

func TestContextEndsRequestAcceptWithoutConfirmation(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	ch := silentPeer(t, l)
	r, err := l.Request(within(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		expect(t, ch, EventConnectResponse)
		cancel()
	}()
	if _, err := r.Accept(ctx, ConnParam{}); !errors.Is(err, context.Canceled) {
		t.Errorf("expected %v, found %v", context.Canceled, err)
	}
	// The peer is told, so it does not wait forever.
	if e := expect(t, ch, EventRejected); isReject(t, e.Err).Code == 0 {
		t.Errorf("found %+v", e)
	}
}

func TestListenerAcceptContinuesDespiteSilentPeer(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	ch := silentPeer(t, l)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	got := make(chan *Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	expect(t, ch, EventConnectResponse) // Accept waits for this one
	d := client()
	c, err := d.Dial(within(t), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := <-got
	if s == nil {
		t.FailNow()
	}
	talk(t, c, s, "overtaken")
	closed(t, c)
	closed(t, s)
	closed(t, l)
	expect(t, ch, EventRejected) // with the listener
}

func TestContextEndsLookup(t *testing.T) {
	leavesNothing(t)
	d := client()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := d.Lookup(ctx, ip(99)+":7471"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expected %v, found %v", context.DeadlineExceeded, err)
	}
}

func TestContextEndsChannelNext(t *testing.T) {
	leavesNothing(t)
	ch := NewEventChannel()
	defer ch.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := ch.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("expected %v, found %v", context.Canceled, err)
	}
}
