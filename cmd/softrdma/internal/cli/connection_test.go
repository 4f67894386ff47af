package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

func TestConnectErrorNamesRemedy(t *testing.T) {
	at := netip.MustParseAddrPort("192.0.2.1:7")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		code int
		says string
	}{
		{t.Context(), &rdmacm.RejectedError{Addr: at, Code: 8, Reason: "no listener"}, ExitPeer, `nothing listens at HOST:7: start "softrdma x" there first`},
		{t.Context(), &rdmacm.RejectedError{Addr: at, Code: 28, PrivateData: append([]byte("too late"), 0, 0)}, ExitPeer, "HOST:7 refused the connection: too late"},
		{t.Context(), &rdmacm.RejectedError{Addr: at, Code: 28, Reason: "the program refuses", PrivateData: []byte{1, 2, 0}}, ExitPeer, "the program refuses"},
		{t.Context(), &rdmacm.RejectedError{Addr: at, Code: 6, Reason: "invalid port"}, ExitPeer, "invalid port"},
		{t.Context(), &rdmacm.ResolveError{Addr: "x:7", Err: errors.New("no such host")}, ExitPeer, "no such host"},
		{t.Context(), &net.DNSError{Name: "x", Err: "no such host"}, ExitPeer, "connect to HOST:7: lookup x: no such host"},
		{t.Context(), &rdmacm.UnreachableError{Addr: at, Err: errors.New("silence")}, ExitPeer, "no answer from HOST:7 within 3s"},
		{t.Context(), &rdmacm.UnreachableError{Addr: at, Err: syscall.ECONNREFUSED}, ExitPeer, "nothing listens at HOST:7: no RDMA device is open there"},
		{t.Context(), &rdmacm.UnreachableError{Addr: at, Err: syscall.EHOSTUNREACH}, ExitPeer, "HOST:7 cannot be reached"},
		{t.Context(), &rdmacm.UnreachableError{Addr: at, Err: syscall.EACCES}, ExitPeer, "a firewall rejects packets to HOST:7: it has to let UDP port 4791 through"},
		{t.Context(), context.DeadlineExceeded, ExitPeer, "UDP port 4791 in both directions"},
		{t.Context(), errors.New("odd"), ExitFailed, "connect to HOST:7: dial: odd"},
		{ended, &rdmacm.RejectedError{Addr: at, Code: 8}, ExitFailed, "context canceled"},
	} {
		err := ConnectError(c.ctx, fmt.Errorf("dial: %w", c.err), "HOST:7", "softrdma x", "", 3*time.Second)
		if ExitCode(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: expected code %d and %q, found %d and %q", c.err, c.code, c.says, ExitCode(err), err)
		}
	}
}

func TestListenErrorNamesTheFlag(t *testing.T) {
	taken := fmt.Errorf("listen: %w", syscall.EADDRINUSE)
	if err := ListenError(taken, Device{}, "", "-a ADDR"); !strings.Contains(err.Error(), "-a ADDR") || !strings.Contains(err.Error(), "4791") {
		t.Errorf("found %q", err)
	}
	other := errors.New("other")
	for _, c := range []struct {
		err error
		dev Device
	}{{nil, Device{}}, {other, Device{}}, {taken, Device{Device: new(verbs.Device)}}} {
		if err := ListenError(c.err, c.dev, "", "-a ADDR"); err != c.err {
			t.Errorf("expected %v, found %v", c.err, err)
		}
	}
}
