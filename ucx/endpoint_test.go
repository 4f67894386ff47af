package ucx_test

import (
	"net"
	"testing"

	. "github.com/openucx/ucx/bindings/go/src/ucx"
)

// listen makes a listener, and returns its address.
func listen(t testing.TB, w *UcpWorker, f UcpListenerConnectionHandler) *net.TCPAddr {
	t.Helper()
	p, err := (&UcpListenerParams{}).SetSocketAddress(nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := w.NewListener(p.SetConnectionHandler(f))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	a, err := l.Query(UCP_LISTENER_ATTR_FIELD_SOCKADDR)
	if err != nil || a.Address.Port == 0 || a.Address.IP.IsUnspecified() {
		t.Fatal(a, err)
	}
	return a.Address
}

// dial makes an endpoint to a listener.
func dial(t testing.TB, w *UcpWorker, to *net.TCPAddr, p *UcpEpParams) *UcpEp {
	t.Helper()
	if _, err := p.SetSocketAddress(to); err != nil {
		t.Fatal(err)
	}
	e, err := w.NewEndpoint(p)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// failures records what an error handler got.
type failures []UcsStatus

func (f *failures) handler(_ *UcpEp, s UcsStatus) { *f = append(*f, s) }

func TestListenerAcceptsAndRejectsRequests(t *testing.T) {
	each(t, func(t *testing.T) {
		server, client := newWorker(t, &UcpWorkerParams{}), newWorker(t, (&UcpWorkerParams{}).SetClientId(1<<40+7))
		var requests []*UcpConnectionRequest
		to := listen(t, server, func(r *UcpConnectionRequest) { requests = append(requests, r) })

		e := dial(t, client, to, (&UcpEpParams{}).SendClientId())
		until(t, "request", func() bool { return len(requests) == 1 }, server, client)
		a, err := requests[0].Query(UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID, UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR)
		if err != nil || a.ClientId != 1<<40+7 || a.ClientAddress == nil || !a.ClientAddress.IP.Equal(to.IP) {
			t.Errorf("%+v, %v", a, err)
		}
		back, err := server.NewEndpoint((&UcpEpParams{}).SetConnRequest(requests[0]))
		if err != nil {
			t.Fatal(err)
		}
		from := CBytes([]byte("welcome"))
		defer FreeNativeMemory(from)
		started(t)(back.SendTagNonBlocking(1, from, 7, nil))
		p, buf := native(t, 7)
		ends(t, started(t)(client.RecvTagNonBlocking(p, 7, 1, 1, nil)), UCS_OK, client, server)
		same(t, buf, []byte("welcome"))
		ends(t, started(t)(e.FlushNonBlocking(nil)), UCS_OK, client, server)

		var failed failures
		second := dial(t, client, to, (&UcpEpParams{}).SetErrorHandler(failed.handler)) // without an ID
		flush := started(t)(second.FlushNonBlocking(nil))
		until(t, "request", func() bool { return len(requests) == 2 }, server, client)
		if a, err := requests[1].Query(UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID); err != nil || a.ClientId != 0 {
			t.Errorf("%+v, %v", a, err)
		}
		if err := requests[1].Reject(); err != nil {
			t.Error(err)
		}
		ends(t, flush, UCS_ERR_REJECTED, server, client)
		until(t, "error handler", func() bool { return len(failed) > 0 }, client)
		r, err := second.SendTagNonBlocking(1, p, 1, nil)
		refused(t, r, err, UCS_ERR_REJECTED)
		if len(failed) != 1 || failed[0] != UCS_ERR_REJECTED {
			t.Errorf("the error handler got %v", failed)
		}
		ends(t, started(t)(second.CloseNonBlockingFlush(nil)), UCS_OK)
	})
}

func TestEndpointsThatCannotConnectFailWithTheReason(t *testing.T) {
	w := newWorker(t, &UcpWorkerParams{})
	var other [64]byte
	gone, err := newContext(t, all()).NewWorker(&UcpWorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	stale, err := gone.GetAddress()
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	free := listen(t, w, func(*UcpConnectionRequest) {})
	socket := &UcpEpParams{}
	if _, err := socket.SetSocketAddress(&net.TCPAddr{IP: free.IP, Port: free.Port ^ 1}); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		p    *UcpEpParams
		want UcsStatus
	}{
		"bytes that are no address": {(&UcpEpParams{}).SetUcpAddress(&UcpAddress{Address: &other[0], Length: 64}), UCS_ERR_INVALID_ADDR},
		"closed worker":             {(&UcpEpParams{}).SetUcpAddress(stale), UCS_ERR_UNREACHABLE},
		"no listener":               {socket, UCS_ERR_NOT_CONNECTED},
	} {
		t.Run(name, func(t *testing.T) {
			var failed failures
			e, err := w.NewEndpoint(x.p.SetPeerErrorHandling().SetName("e").SetErrorHandler(failed.handler))
			if err != nil {
				t.Fatal(err)
			}
			r, err := e.SendTagNonBlocking(1, nil, 0, nil)
			if err == nil {
				ends(t, r, x.want, w)
			} else {
				refused(t, r, err, x.want)
			}
			until(t, "error handler", func() bool { return len(failed) > 0 }, w)
			if failed[0] != x.want {
				t.Errorf("the error handler got %v, expected %v", failed[0], x.want)
			}
		})
	}
}

// The failure of a connection is handled by Progress. What begins before that ends too.
func TestOperationsEndThatBeginAfterTheConnectionFailed(t *testing.T) {
	for name, begin := range map[string]struct {
		op   func(e *UcpEp) (*UcpRequest, error)
		want UcsStatus
	}{
		"send":  {func(e *UcpEp) (*UcpRequest, error) { return e.SendTagNonBlocking(1, nil, 0, nil) }, UCS_ERR_INVALID_ADDR},
		"flush": {func(e *UcpEp) (*UcpRequest, error) { return e.FlushNonBlocking(nil) }, UCS_ERR_INVALID_ADDR},
		"close": {func(e *UcpEp) (*UcpRequest, error) { return e.CloseNonBlockingFlush(nil) }, UCS_OK},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t, &UcpWorkerParams{})
			var other [64]byte
			e, err := w.NewEndpoint((&UcpEpParams{}).SetUcpAddress(&UcpAddress{Address: &other[0], Length: 64}))
			if err != nil {
				t.Fatal(err)
			}
			until(t, "failed connection", func() bool { return w.Queued() > 0 })
			ends(t, started(t)(begin.op(e)), begin.want, w)
		})
	}
}

func TestPeerThatClosesEndsEverythingOnce(t *testing.T) {
	each(t, func(t *testing.T) {
		a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
		var failed failures
		e := connect(t, a, b, (&UcpEpParams{}).SetErrorHandler(failed.handler))
		p, _ := native(t, 100_000)
		var statuses []UcsStatus
		for range 3 { // without a receiver
			started(t)(e.SendTagNonBlocking(1, p, 100_000, (&UcpRequestParams{}).SetCallback(func(_ *UcpRequest, s UcsStatus) { statuses = append(statuses, s) })))
		}
		ends(t, started(t)(e.FlushNonBlocking(nil)), UCS_OK, a, b)
		b.Close()
		until(t, "callbacks", func() bool { return len(statuses) == 3 && len(failed) > 0 }, a)
		for a.Progress() > 0 {
		}
		for _, s := range append(statuses, failed...) {
			if s != UCS_ERR_CONNECTION_RESET {
				t.Errorf("statuses %v, error handler %v", statuses, failed)
			}
		}
		if len(statuses) != 3 || len(failed) != 1 {
			t.Errorf("%d callbacks and %d calls of the error handler, expected 3 and 1", len(statuses), len(failed))
		}
		r, err := e.FlushNonBlocking(nil)
		refused(t, r, err, UCS_ERR_CONNECTION_RESET)
		ends(t, started(t)(e.CloseNonBlockingForce(nil)), UCS_OK)
	})
}

func TestCloseByForceCancelsRequests(t *testing.T) {
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
	var failed failures
	e := connect(t, a, b, (&UcpEpParams{}).SetErrorHandler(failed.handler))
	ends(t, started(t)(e.FlushNonBlocking(nil)), UCS_OK, a, b)
	p, _ := native(t, 100_000)
	r := started(t)(e.SendTagNonBlocking(1, p, 100_000, nil))
	ends(t, started(t)(e.CloseNonBlockingForce(nil)), UCS_OK, a)
	ends(t, r, UCS_ERR_CANCELED, a)
	r, err := e.SendTagNonBlocking(1, p, 1, nil)
	refused(t, r, err, UCS_ERR_NOT_CONNECTED)
	r, err = e.CloseNonBlockingForce(nil)
	refused(t, r, err, UCS_ERR_INVALID_PARAM)
	for a.Progress() > 0 {
	}
	if len(failed) > 0 {
		t.Errorf("the error handler got %v after the program's own close", failed)
	}
}

func TestCloseByForceBeforeTheConnectionCancelsRequests(t *testing.T) {
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
	var failed failures
	to := listen(t, b, func(*UcpConnectionRequest) {}) // never answers
	e := dial(t, a, to, (&UcpEpParams{}).SetErrorHandler(failed.handler))
	r := started(t)(e.SendTagNonBlocking(1, nil, 0, nil))
	ends(t, started(t)(e.CloseNonBlockingForce(nil)), UCS_OK)
	ends(t, r, UCS_ERR_CANCELED)
	a.Close() // ends the goroutine that connects
	if len(failed) > 0 {
		t.Errorf("the error handler got %v after the program's own close", failed)
	}
}

func TestSentDataArrivesAfterAnyClose(t *testing.T) {
	each(t, func(t *testing.T) {
		for _, force := range []bool{false, true} {
			a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
			e := connect(t, a, b, &UcpEpParams{})
			ends(t, started(t)(e.FlushNonBlocking(nil)), UCS_OK, a, b)
			const n = 50
			p, data := native(t, n)
			for i := range data {
				data[i] = byte(i)
				ends(t, started(t)(e.SendTagNonBlocking(1, p, uint64(i), nil)), UCS_OK, a)
			}
			if force {
				ends(t, started(t)(e.CloseNonBlockingForce(nil)), UCS_OK)
			} else {
				ends(t, started(t)(e.CloseNonBlockingFlush(nil)), UCS_OK, a) // without b
			}
			a.Close()
			to, _ := native(t, n)
			for i := range n {
				got := -1
				started(t)(b.RecvTagNonBlocking(to, n, 1, 1, (&UcpRequestParams{}).SetCallback(
					func(_ *UcpRequest, _ UcsStatus, info *UcpTagRecvInfo) { got = int(info.Length) })))
				until(t, "message", func() bool { return got >= 0 }, b)
				if got != i {
					t.Fatalf("message of %d bytes, expected %d", got, i)
				}
			}
		}
	})
}

func TestCloseBeforeTheConnectionFlushes(t *testing.T) {
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
	e := connect(t, a, b, &UcpEpParams{})
	p, _ := native(t, 1)
	started(t)(e.SendTagNonBlocking(1, p, 1, nil))
	ends(t, started(t)(e.CloseNonBlockingFlush(nil)), UCS_OK, a)
	ends(t, started(t)(b.RecvTagNonBlocking(p, 1, 1, 1, nil)), UCS_OK, b)
}

func TestEndpointNeedsAnAddressAndPort(t *testing.T) {
	w := newWorker(t, &UcpWorkerParams{})
	for _, a := range []*net.TCPAddr{nil, {Port: 7}, {IP: net.IPv4(127, 0, 0, 41)}, {IP: net.IPv6unspecified, Port: 7}} {
		p := &UcpEpParams{}
		if _, err := p.SetSocketAddress(a); err != nil {
			t.Fatal(err)
		}
		_, err := w.NewEndpoint(p)
		refused(t, nil, err, UCS_ERR_INVALID_ADDR)
	}
}

func TestListenerRefusesUnsupportedRequests(t *testing.T) {
	w := newWorker(t, &UcpWorkerParams{})
	to := listen(t, w, func(*UcpConnectionRequest) {})
	_, err := w.NewListener((&UcpListenerParams{}).SetConnectionHandler(func(*UcpConnectionRequest) {}))
	refused(t, nil, err, UCS_ERR_INVALID_PARAM)
	p, err := (&UcpListenerParams{}).SetSocketAddress(to)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.NewListener(p)
	refused(t, nil, err, UCS_ERR_INVALID_PARAM)
	_, err = w.NewListener(p.SetConnectionHandler(func(*UcpConnectionRequest) {}))
	refused(t, nil, err, UCS_ERR_BUSY)
	if _, err := p.SetSocketAddress(&net.TCPAddr{IP: net.IP{1, 2, 3}}); err == nil {
		t.Error("an address of 3 bytes was accepted")
	}
}
