package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"testing"

	"softrdma/internal/host"
	"softrdma/internal/registry"
	"softrdma/verbs"
)

func TestDialAcceptConnectsBothWays(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{Param: ConnParam{PrivateData: []byte("welcome")}})
	d := client()
	d.Param = ConnParam{PrivateData: []byte("hello"), ResponderResources: 3, InitiatorDepth: 5}
	c, s := connected(t, l, d)
	for _, end := range []struct {
		c             *Conn
		private       string
		length        int
		local, remote netip.AddrPort
	}{
		{c, "welcome", MaxPrivateAccept, c.LocalAddr(), l.Addr()},
		{s, "hello", MaxPrivateRequest, l.Addr(), c.LocalAddr()},
	} {
		if p := end.c.PrivateData(); len(p) != end.length || !bytes.HasPrefix(p, []byte(end.private+"\x00")) {
			t.Errorf("private data: expected %d bytes that begin with %q, found %d, %q", end.length, end.private, len(p), p)
		}
		if a := end.c.LocalAddr(); a != end.local {
			t.Errorf("local address: expected %v, found %v", end.local, a)
		}
		if a := end.c.RemoteAddr(); a != end.remote {
			t.Errorf("remote address: expected %v, found %v", end.remote, a)
		}
		if st := end.c.QP().State(); st != verbs.RTS {
			t.Errorf("state: expected RTS, found %v", st)
		}
		if end.c.Err() != nil {
			t.Errorf("a standing connection has the error %v", end.c.Err())
		}
	}
	if c.LocalAddr().Addr() != netip.MustParseAddr(clientIP) {
		t.Errorf("the client has the address %v, expected %v", c.LocalAddr(), clientIP)
	}
	cq, sq := c.QP().Query(), s.QP().Query()
	if cq.MaxDestRdAtomic != 3 || cq.MaxRdAtomic != 5 || sq.MaxDestRdAtomic != 5 || sq.MaxRdAtomic != 3 {
		t.Errorf("READs in flight: expected 3 and 5, found %d and %d at the client, %d and %d at the server",
			cq.MaxDestRdAtomic, cq.MaxRdAtomic, sq.MaxDestRdAtomic, sq.MaxRdAtomic)
	}
	if testProtocol == verbs.RoCE && (cq.RetryCnt != 7 || cq.RNRRetry != 7 || sq.RetryCnt != 7 || sq.RNRRetry != 7) {
		t.Errorf("retries: expected 7 each, found %+v and %+v", cq, sq)
	}
	talk(t, c, s, "from the client")
	talk(t, s, c, "from the server")
}

func TestConnDisconnectEndsBothSides(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	for _, who := range []string{"client", "server"} {
		c, s := connected(t, l, client())
		first, second := c, s
		if who == "server" {
			first, second = s, c
		}
		if err := first.Disconnect(); err != nil {
			t.Fatal(err)
		}
		ended(t, first, ErrDisconnected)
		ended(t, second, ErrDisconnected)
		wants(t, first.Err(), "by this side")
		wants(t, second.Err(), "by "+first.LocalAddr().String())
		if err := second.Disconnect(); err != nil {
			t.Errorf("a second Disconnect: %v", err)
		}
	}
}

func TestConnCloseTellsPeer(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	c, s := connected(t, l, client())
	closed(t, c)
	ended(t, s, ErrDisconnected)
	closed(t, c) // a second Close does nothing
}

func TestConnPeerDisconnectFlushesPosted(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	c, s := connected(t, l, client())
	if err := s.QP().PostRecv(verbs.RecvWR{WRID: 7}); err != nil {
		t.Fatal(err)
	}
	if err := c.Disconnect(); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvCQ().Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	var wc [1]verbs.WC
	if n, _ := s.RecvCQ().Poll(wc[:]); n != 1 || wc[0].Status != verbs.WRFlushErr || wc[0].WRID != 7 {
		t.Errorf("expected a flushed receive, found %d: %+v", n, wc)
	}
}

func TestConnCloseBusyPDTriesAgain(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	c, s := connected(t, l, client())
	pd, err := c.PD()
	if err != nil {
		t.Fatal(err)
	}
	mr, err := pd.RegisterMemory(make([]byte, 8), verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); !errors.Is(err, ErrBusy) {
		t.Errorf("expected ErrBusy, found %v", err)
	}
	ended(t, s, ErrDisconnected)
	if err := mr.Deregister(); err != nil {
		t.Error(err)
	}
}

func TestEndpointStepsPostBeforeConnect(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{QP: verbs.QPConfig{MaxInline: 64}})
	server := accepted(t, l)
	d := client()
	e, err := d.Resolve(within(t), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if e.Device().Addr() != deviceAddr(clientIP) || e.RemoteAddr() != l.Addr() || e.LocalAddr().Addr() != netip.MustParseAddr(clientIP) {
		t.Errorf("found device %v, from %v to %v", e.Device().Addr(), e.LocalAddr(), e.RemoteAddr())
	}
	pd, err := e.PD()
	if err != nil {
		t.Fatal(err)
	}
	mr, err := pd.RegisterMemory(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	cq, err := e.Device().CreateCQ(verbs.CQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	q, err := e.CreateQP(pd, verbs.QPConfig{SendCQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	if q.State() != verbs.Init || e.SendCQ() != nil {
		t.Errorf("found %v and the completion queue %v, expected INIT and none", q.State(), e.SendCQ())
	}
	if _, err := e.CreateQP(pd, verbs.QPConfig{SendCQ: cq}); err == nil {
		t.Error("a second queue pair was made")
	}
	if err := q.PostRecv(verbs.RecvWR{SGL: []verbs.SGE{mr.SGE(0, 64)}}); err != nil {
		t.Fatal(err)
	}
	c, err := e.Connect(within(t), ConnParam{})
	if err != nil {
		t.Fatal(err)
	}
	closed(t, e) // the connection owns it now
	s := server()
	if err := s.QP().PostSend(verbs.SendWR{Op: verbs.OpSend, Inline: []byte("early")}); err != nil {
		t.Fatal(err)
	}
	if wc := completion(t, cq); wc.ByteLen != 5 || string(mr.Bytes()[:5]) != "early" {
		t.Errorf("received %q", mr.Bytes()[:wc.ByteLen])
	}
	if err := mr.Deregister(); err != nil {
		t.Error(err)
	}
	closed(t, c)
	closed(t, s)
	if err := cq.Destroy(); err != nil {
		t.Error(err)
	}
}

func TestDialManyAtOnce(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	const n = 40
	got := make(chan error, 2*n)
	ctx := within(t)
	for range n {
		go func() {
			d := client()
			c, err := d.Dial(ctx, l.Addr().String())
			if err == nil {
				<-c.Done()
				err = c.Close()
			}
			got <- err
		}()
		go func() {
			c, err := l.Accept(ctx)
			if err == nil {
				err = c.Close()
			}
			got <- err
		}()
	}
	for range 2 * n {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
}

func TestListenWildcardTakesEveryAddress(t *testing.T) {
	leavesNothing(t)
	l, err := Listen("0.0.0.0:0", ListenConfig{QP: verbs.QPConfig{MaxInline: 64}})
	if err != nil {
		t.Skipf("no device of this machine is free: %v", err)
	}
	defer closed(t, l)
	if l.Addr().Port() == 0 {
		t.Fatal("no port")
	}
	for _, skipped := range l.LeftOut() {
		t.Log(skipped)
	}
	addrs, err := host.LocalAddresses()
	if err != nil {
		t.Fatal(err)
	}
	reached := 0
	for _, a := range addrs {
		if !a.Is4() || registry.Process.Find(netip.AddrPortFrom(a, verbs.Port)) == nil {
			continue
		}
		reached++
		server := accepted(t, l)
		d := client()
		if !a.IsLoopback() {
			d.Local = netip.AddrPortFrom(a, 0)
		}
		c, err := d.Dial(within(t), netip.AddrPortFrom(a, l.Addr().Port()).String())
		if err != nil {
			t.Fatalf("%v: %v", a, err)
		}
		s := server()
		if s.LocalAddr().Addr() != a {
			t.Errorf("the server's address: expected %v, found %v", a, s.LocalAddr())
		}
		talk(t, c, s, "to every address")
		closed(t, c)
		closed(t, s)
	}
	if reached == 0 {
		t.Error("a wildcard listener has no device")
	}
}

func TestListenPortTakenRefused(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	if _, err := Listen(l.Addr().String(), ListenConfig{}); !errors.Is(err, ErrAddrInUse) {
		t.Errorf("expected %v, found %v", ErrAddrInUse, err)
	}
}

func TestListenerCloseEndsWaiting(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	errs := make(chan error, 2)
	ctx := within(t)
	go func() { _, err := l.Accept(ctx); errs <- err }()
	go func() { _, err := l.Request(ctx); errs <- err }()
	closed(t, l)
	for range 2 {
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Errorf("expected %v, found %v", ErrClosed, err)
		}
	}
	if _, err := l.Accept(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: expected %v, found %v", ErrClosed, err)
	}
}

// The peer's interface has a smaller MTU than the client's and the path between them, which
// the client learns from the peer's rejection.
func TestDialTakesThePathMTUThatThePeerHas(t *testing.T) {
	leavesNothing(t)
	dev, err := verbs.Open(ip(31), verbs.Config{MTU: 1024})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	l, err := Listen(ip(31)+":0", ListenConfig{Device: dev, QP: verbs.QPConfig{MaxInline: 64}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, l) })
	c, s := connected(t, l, client())
	if a, b := c.QP().Query().PathMTU, s.QP().Query().PathMTU; a != 1024 || b != 1024 {
		t.Errorf("path MTU: expected 1024 at both ends, found %d and %d", a, b)
	}
	talk(t, c, s, "in packets that fit both ends")
}
