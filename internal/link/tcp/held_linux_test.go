package tcp

import (
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"softrdma/internal/link"
)

// A slowTransport writes when the test permits it.
type slowTransport struct {
	net.Conn
	writes chan writeCall
	end    chan struct{} // closed when the peer ends the stream
}

// A writeCall is a call of Write that waits for its result.
type writeCall struct {
	length int
	result chan error
}

func (s *slowTransport) Read([]byte) (int, error) {
	<-s.end
	return 0, io.EOF
}

func (s *slowTransport) Write(b []byte) (int, error) {
	c := writeCall{len(b), make(chan error)}
	s.writes <- c
	if err := <-c.result; err != nil {
		return 0, err
	}
	return len(b), nil
}

func (s *slowTransport) Close() error      { return nil }
func (s *slowTransport) CloseWrite() error { return nil }

// slowConn returns a stream over a slowTransport.
func slowConn(t *testing.T) (end, *conn, *owner, *slowTransport) {
	l, err := openConns(netip.MustParseAddr("127.13.2.1"), Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &slowTransport{writes: make(chan writeCall), end: make(chan struct{})}
	o := &owner{}
	c := l.(*conns).newConn(o)
	c.over = s
	l.(*conns).work.Go(c.read)
	l.(*conns).work.Go(c.write)
	t.Cleanup(func() {
		c.in.ends(true)
		c.out.ends(true)
		_ = l.Close()
	})
	return end{t, l}, c, o, s
}

func write(t *testing.T, c *conn, n int) {
	t.Helper()
	if k, err := c.Write([][]byte{make([]byte, n)}); k != n || err != nil {
		t.Fatalf("wrote %d of %d bytes: %v", k, n, err)
	}
}

func wantHeld(t *testing.T, c *conn, want int) {
	t.Helper()
	if n := c.Held(); n != want {
		t.Errorf("%d bytes are held, expected %d", n, want)
	}
}

func TestHeldCountsBytesThatTheSystemLacks(t *testing.T) {
	e, c, o, s := slowConn(t)
	write(t, c, 100)
	first := <-s.writes
	write(t, c, 50)
	wantHeld(t, c, 150)
	first.result <- nil
	second := <-s.writes
	wantHeld(t, c, 50)
	*o = owner{}
	second.result <- nil
	e.until(func() bool { return o.writable }) // once, when nothing is held
	wantHeld(t, c, 0)
	close(s.end)
}

// endWhileWriting makes the peer end a stream while 100 bytes are being written, and then ends
// the write with a result. The end can then be read, and the given number of bytes is held.
func endWhileWriting(t *testing.T, result error, held int) {
	t.Helper()
	e, c, o, s := slowConn(t)
	write(t, c, 100)
	last := <-s.writes
	close(s.end)
	e.until(func() bool { return o.hangup })
	if _, err := c.Read([][]byte{make([]byte, 1)}); err != link.ErrWouldBlock {
		t.Errorf("expected no end while bytes are held, found %v", err)
	}
	*o = owner{}
	last.result <- result
	e.until(func() bool { return o.readable })
	wantHeld(t, c, held)
	if _, err := c.Read([][]byte{make([]byte, 1)}); err != io.EOF {
		t.Errorf("expected the end, found %v", err)
	}
}

// A peer may have ended the stream because it has received everything. Its end can be read
// once that is known.
func TestPeersEndIsReadAfterWritesEnd(t *testing.T) {
	endWhileWriting(t, nil, 0)
}

// Bytes that could not be written stay held, because they were not sent.
func TestHeldBytesStayAfterAFailure(t *testing.T) {
	endWhileWriting(t, syscall.ECONNRESET, 100)
}
