//go:build linux

package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/testenv"
	"softrdma/internal/wire/uapi"
)

// wrongDaemon answers each message of one connection with the same bytes and descriptors, or with
// nothing if answer is nil. It closes ended after it has closed the connection.
func wrongDaemon(t *testing.T, answer []byte, fds ...int) (socket string, ended chan struct{}) {
	t.Helper()
	dir := testenv.SocketDir(t)
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(dir, "socket"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		c, err := ln.AcceptUnix()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 2048)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
			if answer == nil {
				continue
			}
			if _, _, err := c.WriteMsgUnix(answer, unix.UnixRights(fds...), nil); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-ended
	})
	return ln.Addr().String(), ended
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// A daemon that sends wrong answers must not leak descriptors in the program.
func TestDescriptorsOfWrongAnswersAreClosed(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	good, refused := uapi.Reply{}, uapi.Reply{Result: -int64(syscall.EINVAL)}
	for name, c := range map[string]struct {
		answer []byte
		fds    int
		want   error
		lost   bool
	}{
		"short":                {answer: uapi.Bytes(&good)[:replyLen-1], fds: 2, lost: true},
		"too many descriptors": {answer: uapi.Bytes(&good), fds: 100, want: syscall.EPROTO},
		"refused":              {answer: uapi.Bytes(&refused), fds: 2, want: syscall.EINVAL},
		"no slot":              {answer: append(uapi.Bytes(&good), `{"First":0}`...), fds: 3, want: syscall.EPROTO},
	} {
		t.Run(name, func(t *testing.T) {
			socket, ended := wrongDaemon(t, c.answer, slices.Repeat([]int{int(null.Fd())}, c.fds)...)
			before := openDescriptors(t)
			_, err := takeSlot(t.Context(), &target{socket: socket, file: "uverbs0"})
			<-ended
			lost := (*lostError)(nil)
			if c.lost != errors.As(err, &lost) || !c.lost && !errors.Is(err, c.want) {
				t.Errorf("found %v, expected %v, the connection lost: %v", err, c.want, c.lost)
			}
			if now := openDescriptors(t); now > before {
				t.Errorf("%d descriptors, expected %d at most", now, before)
			}
		})
	}
}

// A stopped daemon accepts connections, because the kernel does, and never answers.
func TestStoppedDaemonIsGivenUpWithTheContext(t *testing.T) {
	socket, ended := wrongDaemon(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Ask(ctx, socket); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("found %v, expected the context's error", err)
	}
	<-ended
}
