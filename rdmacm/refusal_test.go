package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/cmid"
	"softrdma/internal/wire/mad"
	"softrdma/verbs"
)

// impatient returns a dialer that waits for a silent peer for about 0.1 s.
func shortTimeouts() Dialer {
	d := client()
	d.ResponseTimeout, d.Retries = 13, 2 // 34 ms
	return d
}

func TestDialNoListenerRejected(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{}) // makes sure that the device exists
	d := client()
	_, err := d.Dial(within(t), addr(serverIP, l.Addr().Port()-1).String())
	r := isReject(t, err)
	if r.Code != uint16(mad.RejectInvalidServiceID) || r.Addr.Addr() != l.Addr().Addr() {
		t.Errorf("expected reason %d, found %+v", mad.RejectInvalidServiceID, r)
	}
	wants(t, err, serverIP, "no listener")
}

// silent binds an address and UDP port without ever answering.
func silent(t *testing.T, at string) {
	t.Helper()
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
}

// TestDialNoDeviceRefused: the peer's host reports by ICMP that no device is open, and the
// dial fails long before the 70 s in which a request is retransmitted.
func TestDialNoDeviceRefused(t *testing.T) {
	leavesNothing(t)
	d := client()
	began := time.Now()
	_, err := d.Dial(within(t), ip(99)+":7471")
	var u *UnreachableError
	if !errors.As(err, &u) || u.Addr != addr(ip(99), 7471) || u.Timeout() || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("expected an *UnreachableError that wraps ECONNREFUSED, found %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	wants(t, err, ip(99)+":7471 is unreachable", "no process listens")
}

func TestDialSilentPeerUnreachable(t *testing.T) {
	leavesNothing(t)
	silent(t, ip(99)+":4791")
	d := shortTimeouts()
	_, err := d.Dial(within(t), ip(99)+":7471")
	var u *UnreachableError
	if !errors.As(err, &u) || u.Addr != addr(ip(99), 7471) || !u.Timeout() {
		t.Errorf("expected an *UnreachableError, found %v", err)
	}
	wants(t, err, ip(99)+":7471 is unreachable")
}

func TestDialUnresolvableRefused(t *testing.T) {
	leavesNothing(t)
	for _, c := range []struct{ addr, want string }{
		{"no port", "expected host:port"},
		{serverIP + ":0", "expected 1 to 65535"},
		{serverIP + ":no-such-service", "no-such-service"},
		{serverIP + ":70000", "70000"},
		{"no-such-host.invalid:7471", "no-such-host.invalid"},
		{"[fe80::1]:7471", "fe80::1"}, // no interface
	} {
		d := Dialer{}
		_, err := d.Dial(within(t), c.addr)
		var r *ResolveError
		if !errors.As(err, &r) {
			t.Errorf("%s: expected a *ResolveError, found %v", c.addr, err)
		}
		wants(t, err, c.addr, c.want)
	}
	d := client()
	_, err := d.Dial(within(t), "[::1]:7471")
	wants(t, err, "family")
}

func TestRequestRejectTellsPeer(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	got := make(chan error, 1)
	ctx := within(t)
	go func() {
		d := client()
		d.Param.PrivateData = []byte("please")
		_, err := d.Dial(ctx, l.Addr().String())
		got <- err
	}()
	q, err := l.Request(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(q.PrivateData(), []byte("please\x00")) || q.RemoteAddr().Addr() != netip.MustParseAddr(clientIP) || q.LocalAddr() != l.Addr() {
		t.Errorf("found a request from %v to %v with %q", q.RemoteAddr(), q.LocalAddr(), q.PrivateData())
	}
	if err := q.Reject(make([]byte, MaxPrivateReject+1)); !errors.Is(err, ErrPrivateData) {
		t.Errorf("expected %v, found %v", ErrPrivateData, err)
	}
	if err := q.Reject([]byte("no room")); err != nil {
		t.Fatal(err)
	}
	err = <-got
	r := isReject(t, err)
	if r.Code != uint16(mad.RejectConsumer) || len(r.PrivateData) != MaxPrivateReject || !bytes.HasPrefix(r.PrivateData, []byte("no room\x00")) {
		t.Errorf("found %+v", r)
	}
	wants(t, err, "the program on the peer rejected")
	if err := q.Reject(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a second Reject: expected %v, found %v", ErrClosed, err)
	}
	if _, err := q.Accept(ctx, ConnParam{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Accept after Reject: expected %v, found %v", ErrClosed, err)
	}
}

func TestListenerFullBacklogRejects(t *testing.T) {
	leavesNothing(t)
	const backlog, n = 3, 8
	l := listen(t, ListenConfig{Backlog: backlog})
	results := make(chan error, n)
	ctx, cancel := context.WithCancel(within(t))
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			d := client()
			_, err := d.Dial(ctx, l.Addr().String())
			results <- err
		})
	}
	for range n - backlog {
		r := isReject(t, <-results)
		if r.Code != uint16(mad.RejectConsumer) {
			t.Errorf("expected reason %d, found %+v", mad.RejectConsumer, r)
		}
		if p := r.Peer(); testProtocol != verbs.IWARP && (p == nil || p.Reason() != "CM_BACKLOG" || p.Expected() != backlog) {
			t.Errorf("expected CM_BACKLOG, the peer says %v", p)
		}
	}
	cancel() // ends waiting calls
	all.Wait()
	for range backlog {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("expected %v, found %v", context.Canceled, err)
		}
	}
}

func TestListenerClientsGonePassedOver(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	ctx, cancel := context.WithCancel(within(t))
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			d := client()
			if _, err := d.Dial(ctx, l.Addr().String()); !errors.Is(err, context.Canceled) {
				t.Errorf("expected %v, found %v", context.Canceled, err)
			}
		})
	}
	eventually(t, "three requests", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.requests) == 3
	})
	cancel()
	all.Wait()
	c, s := connected(t, l, client())
	talk(t, c, s, "the fourth")
}

func TestPrivateDataTooLongRefused(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	for _, limit := range []int{MaxPrivateRequest, MaxPrivateRequest + 1} {
		server := accepted(t, l)
		d := client()
		d.Param.PrivateData = make([]byte, limit)
		c, err := d.Dial(within(t), l.Addr().String())
		if limit == MaxPrivateRequest {
			if err != nil {
				t.Fatal(err)
			}
			closed(t, server())
			closed(t, c)
			continue
		}
		if !errors.Is(err, ErrPrivateData) {
			t.Errorf("expected %v, found %v", ErrPrivateData, err)
		}
		wants(t, err, "at most 56 bytes, found 57")
		// The accepter of the refused one takes the next.
		d.Param.PrivateData = nil
		c, err = d.Dial(within(t), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		closed(t, server())
		closed(t, c)
	}
}

func TestAcceptPrivateDataTooLongRefused(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{Param: ConnParam{PrivateData: make([]byte, MaxPrivateAccept+1)}})
	got := make(chan error, 1)
	ctx := within(t)
	go func() {
		d := client()
		_, err := d.Dial(ctx, l.Addr().String())
		got <- err
	}()
	_, err := l.Accept(ctx)
	if !errors.Is(err, ErrPrivateData) {
		t.Errorf("expected %v, found %v", ErrPrivateData, err)
	}
	wants(t, err, "at most 196 bytes, found 197")
	isReject(t, <-got)
}

func TestConnParamOutOfRangeRefused(t *testing.T) {
	for _, c := range []struct {
		p    ConnParam
		want string
	}{
		{ConnParam{RetryCount: 8}, "retry count: expected 0 to 7, found 8"},
		{ConnParam{RNRRetryCount: 9}, "RNR retry count: expected 0 to 7, found 9"},
		{ConnParam{AckDelay: 32}, "acknowledge delay: expected 0 to 31, found 32"},
		{ConnParam{ResponderResources: 129}, "responder resources: expected at most 128, found 129"},
		{ConnParam{InitiatorDepth: 200}, "initiator depth: expected at most 128, found 200"},
		{ConnParam{QPN: 1 << 24}, "queue pair number: expected 24 bits, found 0x1000000"},
	} {
		if _, err := c.p.request(PortSpaceTCP); err == nil || err.Error() != c.want {
			t.Errorf("request: expected %q, found %v", c.want, err)
		}
		if _, err := c.p.accept(PortSpaceTCP, &ConnParam{}); err == nil || err.Error() != c.want {
			t.Errorf("accept: expected %q, found %v", c.want, err)
		}
	}
}

func TestConnParamDefaults(t *testing.T) {
	p := ConnParam{}
	c, err := p.request(PortSpaceTCP)
	if err != nil || c.ResponderResources != DefaultReadAtomic || c.InitiatorDepth != DefaultReadAtomic || c.RetryCount != 7 || c.RNRRetryCount != 7 {
		t.Errorf("request: found %+v, %v", c, err)
	}
	z := ConnParam{ResponderResources: Zero, InitiatorDepth: Zero, RetryCount: Zero, RNRRetryCount: Zero}
	c, err = z.request(PortSpaceTCP)
	if err != nil || c.ResponderResources != 0 || c.InitiatorDepth != 0 || c.RetryCount != 0 || c.RNRRetryCount != 0 {
		t.Errorf("zeros: found %+v, %v", c, err)
	}
	for _, q := range []struct{ asked, own, want uint8 }{
		{4, 0, 4}, {4, 2, 2}, {4, 9, 4}, {0, 0, 0}, {255, 0, verbs.MaxReadAtomic}, {4, Zero, 0},
	} {
		p := ConnParam{ResponderResources: q.own, InitiatorDepth: q.own}
		c, err := p.accept(PortSpaceTCP, &ConnParam{ResponderResources: q.asked, InitiatorDepth: q.asked})
		if err != nil || c.ResponderResources != q.want || c.InitiatorDepth != q.want {
			t.Errorf("asked %d, own %d: expected %d, found %+v, %v", q.asked, q.own, q.want, c, err)
		}
	}
}

func TestErrorsOfManagerBecomePublic(t *testing.T) {
	at := addr(serverIP, 7)
	if err := public(&cmid.LookupError{Addr: at, Status: mad.SIDRNoQP}); isReject(t, err).Code != 3 {
		t.Errorf("found %v", err)
	}
	if err := public(cmid.ErrDestroyed); !errors.Is(err, ErrClosed) || !errors.Is(err, cmid.ErrDestroyed) {
		t.Errorf("found %v", err)
	}
	if err := public(nil); err != nil {
		t.Errorf("found %v", err)
	}
}
