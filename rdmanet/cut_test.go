package rdmanet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"softrdma/verbs"
)

// wantCut checks that err reports a cut stream with its reason.
func wantCut(t *testing.T, err error) {
	t.Helper()
	var cut *CutError
	var op *net.OpError
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || !errors.As(err, &cut) || cut.Reason() != "SOCKET_CUT" || !errors.As(err, &op) || op.Op != "read" {
		t.Errorf("expected a stream that was cut, found %v", err)
	}
}

// disconnects ends a connection as the kernel of a killed process does, without the
// message of rsockets.
func disconnects(t *testing.T, c *Conn) {
	t.Helper()
	if err := c.link.Disconnect(); err != nil {
		t.Error(err)
	}
}

func TestCutStreamReturnsCutError(t *testing.T) {
	l, d := listen(t, ListenConfig{}), dialer(t)
	for _, said := range []string{"", "last words"} {
		c, s := dial(t, d, l)
		if _, err := io.WriteString(s, said); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, len(said))); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			done <- err
		}()
		disconnects(t, s)
		wantCut(t, <-done)
		if _, err := c.Read(make([]byte, 1)); true {
			wantCut(t, err) // the error is permanent
		}
		if n, err := c.WriteTo(io.Discard); n != 0 || err == nil {
			t.Errorf("WriteTo: %d bytes, %v", n, err)
		} else {
			wantCut(t, err)
		}
		if _, err := c.Write(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("expected ECONNRESET, found %v", err)
		}
	}
}

// Data that arrived before the cut is read first.
func TestCutStreamDeliversEarlierData(t *testing.T) {
	a, b, _, wb := pairOn(t, openDevice(t, verbs.Config{}), openDevice(t, verbs.Config{}), Options{})
	p := random(1, 100_000)
	if _, err := b.Write(p); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	err := b.await(&b.x) // the device of a has acknowledged it
	b.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := wb.Disconnect(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(a)
	wantCut(t, err)
	if !bytes.Equal(got, p) {
		t.Errorf("%d bytes of %d", len(got), len(p))
	}
}

// A direction that ended in order remains so, and one that did not is cut.
func TestStreamCutWhileHalfClosed(t *testing.T) {
	l, d := listen(t, ListenConfig{}), dialer(t)
	c, s := dial(t, d, l)
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); len(b) != 0 || err != nil {
		t.Fatal(b, err)
	}
	disconnects(t, s)
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a direction that has ended: expected EOF, found %v", err)
	}
	_, err := s.Read(make([]byte, 1))
	wantCut(t, err) // the other direction was open, whichever end closed the connection

	c, s = dial(t, d, l)
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(s); len(b) != 0 || err != nil {
		t.Fatal(b, err)
	}
	disconnects(t, s)
	_, err = c.Read(make([]byte, 1))
	wantCut(t, err)
}

// Abandoning a connection with a linger of 0 does not end the stream for the peer.
// Neither does closing a listener before it accepts.
func TestAbandonedStreamReturnsCutError(t *testing.T) {
	l, d := listen(t, ListenConfig{}), dialer(t)
	c, s := dial(t, d, l)
	if err := errors.Join(s.SetLinger(0), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, err := c.Read(make([]byte, 1))
	wantCut(t, err)

	waits, err := d.Dial("rdma", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer waits.Close()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = waits.Read(make([]byte, 1))
	wantCut(t, err)
}

// Both ends shut down writing at the same time and close. Each gets all of the
// other's data.
func TestCrossingCloseLosesNothing(t *testing.T) {
	l, d := listen(t, ListenConfig{}), dialer(t)
	for i := range 20 {
		c, s := dial(t, d, l)
		p := random(uint64(i), 200_000)
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := c.Write(p); err != nil {
				t.Error(err)
			}
			if err := errors.Join(c.CloseWrite(), c.Close()); err != nil {
				t.Error(err)
			}
		})
		got, err := io.ReadAll(s)
		if err != nil || !bytes.Equal(got, p) {
			t.Errorf("%d bytes of %d: %v", len(got), len(p), err)
		}
		both.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A Close after crossing shutdowns waits for written data, like any other.
func TestCrossingCloseReportsUndeliveredData(t *testing.T) {
	a, b, wa, wb := pairOn(t, openDevice(t, verbs.Config{}), openDevice(t, verbs.Config{}), Options{KeepAlive: -1, Linger: 50 * time.Millisecond})
	wa.mute, wb.mute = true, true
	b.mu.Lock()
	m, _ := b.life.CloseWrite()
	b.control(m)
	err := b.await(&b.x) // the device of a has acknowledged it, but its program has not read it
	b.mu.Unlock()
	if err = errors.Join(err, wb.qp.ToReset()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte("for nobody")); err != nil {
		t.Fatal(err)
	}
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("expected %v, found %v", os.ErrDeadlineExceeded, err)
	}
}

// The server is killed in the middle of a body that ends with the connection.
func TestNetHTTPBodyCut(t *testing.T) {
	part, read := make(chan struct{}), make(chan struct{})
	s, c := httpPair(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\na part of")
		<-part
		if r.URL.Path == "/whole" {
			io.WriteString(conn, " it")
		} else {
			disconnects(t, conn.(*Conn))
		}
		conn.Close()
		close(read)
	}, (*httptest.Server).Start)
	for path, want := range map[string]string{"/cut": "a part of", "/whole": "a part of it"} {
		part, read = make(chan struct{}), make(chan struct{})
		r, err := c.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		close(part)
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if path == "/whole" && err != nil || path == "/cut" && !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != want {
			t.Errorf("%s: found %q, %v", path, body, err)
		}
		<-read
	}
}
