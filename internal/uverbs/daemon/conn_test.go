//go:build linux

package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/uverbs/uapi"
)

// wrongDaemon answers each message on a socket with the same bytes and descriptors.
func wrongDaemon(t *testing.T, answer []byte, fds ...int) (socket string, accepted chan struct{}) {
	t.Helper()
	dir, err := os.MkdirTemp("", "daemon") // short, because a socket's path has at most 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(dir, "socket"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	accepted, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c, err := ln.AcceptUnix()
		if err != nil {
			return
		}
		defer c.Close()
		close(accepted)
		b := make([]byte, 2048)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
			if _, _, err := c.WriteMsgUnix(answer, unix.UnixRights(fds...), nil); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-ended
		os.RemoveAll(dir)
	})
	return ln.Addr().String(), accepted
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
		"too many descriptors": {answer: uapi.Bytes(&good), fds: 100, want: syscall.EMFILE},
		"refused":              {answer: uapi.Bytes(&refused), fds: 2, want: syscall.EINVAL},
		"no slot":              {answer: append(uapi.Bytes(&good), `{"First":0}`...), fds: 3, want: syscall.EPROTO},
	} {
		t.Run(name, func(t *testing.T) {
			socket, accepted := wrongDaemon(t, c.answer, slices.Repeat([]int{int(null.Fd())}, c.fds)...)
			before := openDescriptors(t)
			_, err := takeSlot(&target{socket: socket, file: "uverbs0"})
			<-accepted
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
