package rdmanet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// httpPair returns a server on a listener and a client that dials it.
func httpPair(t *testing.T, h http.HandlerFunc, start func(*httptest.Server)) (*httptest.Server, *http.Client) {
	t.Helper()
	l, d := listen(t, ListenConfig{}), dialer(t)
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = l
	start(s)
	t.Cleanup(s.Close)
	c := s.Client()
	tr := c.Transport.(*http.Transport)
	tr.DialContext = d.DialContext
	if tr.TLSClientConfig != nil {
		tr.TLSClientConfig.ServerName = "127.0.0.1" // the name in the certificate
	}
	t.Cleanup(c.CloseIdleConnections)
	return s, c
}

// net/http runs over RDMA: concurrent requests with bodies in both directions over
// reused connections, plain, with TLS, and as HTTP/2.
func TestNetHTTP(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Write(b)
	}
	for name, start := range map[string]func(*httptest.Server){
		"plain": (*httptest.Server).Start, "TLS": (*httptest.Server).StartTLS,
		"HTTP/2": func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
	} {
		t.Run(name, func(t *testing.T) {
			s, c := httpPair(t, echo, start)
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					for k := range 4 {
						p := random(uint64(i), 1+k*100_000)
						r, err := c.Post(s.URL, "application/octet-stream", bytes.NewReader(p))
						if err != nil {
							t.Error(err)
							return
						}
						got, err := io.ReadAll(r.Body)
						r.Body.Close()
						if err != nil || !bytes.Equal(got, p) {
							t.Errorf("%d bytes of %d: %v", len(got), len(p), err)
						}
						if two := r.ProtoMajor == 2; two != (name == "HTTP/2") {
							t.Errorf("found %s", r.Proto)
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// A request that the client gives up ends on both sides.
func TestNetHTTPRequestGivenUp(t *testing.T) {
	ended := make(chan error, 1)
	s, c := httpPair(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done() // the server notices by reading
		ended <- r.Context().Err()
	}, (*httptest.Server).Start)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(r.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("expected %v, found %v", context.Canceled, err)
	}
	r.Body.Close()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not notice")
	}
}

// A server that shuts down finishes its requests and refuses new ones.
func TestNetHTTPShutdown(t *testing.T) {
	in, out := make(chan bool), make(chan bool)
	l, d := listen(t, ListenConfig{}), dialer(t)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		in <- true
		<-out
		io.WriteString(w, "done")
	})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c := &http.Client{Transport: &http.Transport{DialContext: d.DialContext}}
	answer := make(chan string, 1)
	go func() {
		r, err := c.Get("http://" + l.Addr().String())
		if err != nil {
			answer <- err.Error()
			return
		}
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		answer <- string(b)
	}()
	<-in
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(t.Context()) }()
	if err := <-served; err != http.ErrServerClosed {
		t.Errorf("Serve: %v", err)
	}
	out <- true
	if got := <-answer; got != "done" {
		t.Errorf("found %q", got)
	}
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	var op *net.OpError
	if _, err := c.Get("http://" + l.Addr().String()); !errors.As(err, &op) {
		t.Errorf("expected a refusal, found %v", err)
	}
	c.CloseIdleConnections()
}
