package tcp

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/link"
)

// The ends of connections have the same errors on Windows as on other systems.
func TestErrorsOfWindowsAreTranslated(t *testing.T) {
	for no, want := range map[syscall.Errno]syscall.Errno{
		10048: syscall.EADDRINUSE, 10051: syscall.ENETUNREACH, 10052: syscall.ETIMEDOUT, 10053: syscall.ECONNABORTED,
		10054: syscall.ECONNRESET, 10060: syscall.ETIMEDOUT, 10061: syscall.ECONNREFUSED, 10065: syscall.EHOSTUNREACH,
	} {
		err := named(&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("wsarecv", no)})
		if !errors.Is(err, want) || !errors.Is(err, no) {
			t.Errorf("%d: found %v, expected %v", uintptr(no), err, want)
		}
	}
	for _, err := range []error{nil, io.EOF, os.NewSyscallError("read", syscall.EPIPE)} {
		if named(err) != err {
			t.Errorf("%v became %v", err, named(err))
		}
	}
}

// An unsendable is a connection on which nothing can be sent.
type unsendable struct {
	net.Conn
	err error
}

func (b *unsendable) Prepare(*Config) error     { return nil }
func (b *unsendable) Segment() int              { return 0 }
func (b *unsendable) SetLinger(int) error       { return nil }
func (b *unsendable) CloseWrite() error         { return nil }
func (b *unsendable) Write([]byte) (int, error) { return 0, b.err }

// An error of sending is translated as well: it is the one that is reported if TCP gives up data.
func TestErrorsOfSendingAreTranslated(t *testing.T) {
	l := newConns(nil, netip.MustParseAddr("127.0.0.1"), Config{}, nil)
	defer l.Close()
	near, far := net.Pipe()
	defer far.Close()
	c := l.newConn(t)
	b := &unsendable{near, os.NewSyscallError("wsasend", syscall.Errno(10060))}
	c.raw, c.over, c.dialed = b, b, true
	go c.write()
	for deadline := time.Now().Add(10 * time.Second); ; {
		_, err := c.Write([][]byte{{1}})
		if errors.Is(err, syscall.ETIMEDOUT) {
			return
		}
		if err != nil && err != link.ErrWouldBlock || time.Now().After(deadline) {
			t.Fatalf("found %v", err)
		}
		time.Sleep(time.Millisecond)
	}
}
