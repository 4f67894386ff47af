//go:build linux

package uverbs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// A rawClient sends messages that no library would send.
type rawClient struct {
	t  testing.TB
	fd int
}

func newRawClient(t testing.TB, s *Server) *rawClient {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: s.Socket()})
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &rawClient{t, fd}
	t.Cleanup(c.close)
	return c
}

func (c *rawClient) close() {
	if c.fd >= 0 {
		unix.Close(c.fd)
		c.fd = -1
	}
}

// send sends a message with descriptors in blocks of the given sizes. It reports whether the server still took it.
func (c *rawClient) send(data []byte, passed int, blocks ...int) bool {
	var oob []byte
	for _, n := range blocks {
		oob = append(oob, unix.UnixRights(slices.Repeat([]int{passed}, n)...)...)
	}
	// Not unix.Sendmsg, which makes an empty message one of one byte.
	h := unix.Msghdr{Control: unsafe.SliceData(oob)}
	h.SetControllen(len(oob))
	iov := unix.Iovec{Base: unsafe.SliceData(data)}
	iov.SetLen(len(data))
	h.Iov = &iov
	h.SetIovlen(1)
	_, _, no := unix.Syscall(unix.SYS_SENDMSG, uintptr(c.fd), uintptr(unsafe.Pointer(&h)), unix.MSG_NOSIGNAL)
	if no != 0 && no != unix.EPIPE && no != unix.ECONNRESET {
		c.t.Fatalf("message of %d bytes with %v descriptors: %v", len(data), blocks, no)
	}
	return no == 0
}

// answered takes one answer. The system closes the descriptors that come with it, as there is no room for them.
func (c *rawClient) answered() {
	var b [2048]byte
	_, _ = unix.Read(c.fd, b[:]) // an error is the end, of a client that is refused
}

// malformed is one message of the property test.
func malformed(r *rand.Rand, file uint64) (data []byte, blocks []int) {
	q := uapi.Request{Version: uapi.Protocol, Op: uint32(r.IntN(12)), File: file, Arg: [4]uint64{r.Uint64(), uint64(r.IntN(64)), r.Uint64(), r.Uint64()}}
	switch r.IntN(6) {
	case 0:
		q.Op = r.Uint32()
	case 1:
		q.Op |= uapi.OpTell
	case 2:
		q.Version = r.Uint32()
	case 3:
		q.File = r.Uint64()
	}
	data = uapi.Bytes(&q)
	switch r.IntN(5) {
	case 0: // nothing but the header
	case 1:
		data = data[:r.IntN(len(data)+1)]
	case 2:
		data = append(data, "uverbs0"...)
	case 3: // a command, known or not, with any words behind it
		h := uapi.CmdHeader{Command: uint32(r.IntN(80)), InWords: uint16(r.IntN(20)), OutWords: uint16(r.IntN(20))}
		data = append(append(data, uapi.Bytes(&h)...), make([]byte, r.IntN(100))...)
	case 4:
		data = append(data, make([]byte, uapi.MaxData+r.IntN(100))...)
	}
	if r.IntN(4) == 0 {
		data = nil
	}
	// The system passes on 253 at most, of all blocks together.
	blocks = [][]int{nil, {1}, {2}, {3}, {253}, {1, 1}, {1, 252}, {100, 1, 3}}[r.IntN(8)]
	return data, blocks
}

// The descriptors of a malformed message are closed, also those of users that are not allowed.
func TestDescriptorsOfMalformedMessagesAreClosed(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 80
	}
	for who, allow := range map[string]bool{"allowed": true, "not allowed": false} {
		t.Run(who, func(t *testing.T) {
			s := newServerOf(t, "127.14.11.1", Config{Allow: func(_, _ uint32) bool { return allow }})
			null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(null)
			var file uint64
			if allow { // commands of an open file; its process is known from now on
				file = newTestClient(t, s).open("uverbs0").id
			}
			before := openDescriptors(t)
			for seed := range uint64(rounds) {
				r := rand.New(rand.NewPCG(seed, 0))
				c := newRawClient(t, s)
				for range 1 + r.IntN(3) {
					data, blocks := malformed(r, file)
					if !c.send(data, null, blocks...) || r.IntN(4) == 0 {
						break // closed in the middle, with messages that were not read
					}
					c.answered()
				}
				c.close()
			}
			eventually(t, fmt.Sprintf("%d descriptors as before", before), func() bool { return openDescriptors(t) <= before })
		})
	}
}

// Only its descriptors distinguish an empty message from the end of the connection.
func TestEmptyMessagesWithDescriptorsAreClosedAndCounted(t *testing.T) {
	s, log := newServerFor(t, "127.14.11.2", nil)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	c := newRawClient(t, s)
	c.send(nil, null)
	c.answered() // its process is known now
	before := openDescriptors(t)
	for range 20 {
		if !c.send(nil, null, 2) {
			t.Fatal("the connection has ended")
		}
		c.answered()
		if now := openDescriptors(t); now > before {
			t.Fatalf("%d descriptors before an empty message, %d after it", before, now)
		}
	}
	if !strings.Contains(log(), "CLIENT_DESCRIPTORS") {
		t.Errorf("expected CLIENT_DESCRIPTORS in the log, found %q", log())
	}
}

// hungUp returns how many connections the server has closed.
func hungUp(list []*rawClient) (n int) {
	for _, c := range list {
		p := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
		if k, _ := unix.Poll(p, 0); k > 0 && p[0].Revents&unix.POLLHUP != 0 {
			n++
		}
	}
	return n
}

// Users that are not allowed get an answer, but not more of the server at a time than maxRefusing connections.
func TestConnectionsOfRefusedUsersAreBounded(t *testing.T) {
	s := newServerOf(t, "127.14.11.3", Config{Allow: func(_, _ uint32) bool { return false }})
	const n = 300
	before := openDescriptors(t)
	var list []*rawClient
	for range n {
		list = append(list, newRawClient(t, s))
	}
	most := 0
	eventually(t, "all but a few connections closed", func() bool {
		most = max(most, openDescriptors(t)-before-n)
		return hungUp(list) >= n-client.MaxRefusing
	})
	if limit := client.MaxRefusing*connectionDescriptors + 2; most > limit { // one of accept, one of /proc/self/fd
		t.Errorf("%d connections held %d descriptors of the server, expected %d at most", n, most, limit)
	}
	for _, c := range list {
		c.close()
	}
	eventually(t, "all closed", func() bool { return openDescriptors(t) <= before })
}

// A user who is allowed and opens connections without end gets half of the descriptors, and no more.
func TestConnectionsOfOneUserAreBounded(t *testing.T) {
	s, log := newServerFor(t, "127.14.11.4", nil)
	a := limited(s, 30, 100)
	newTestClient(t, s).open("uverbs0") // the process is known from now on
	const n = 300
	before := openDescriptors(t)
	var list []*rawClient
	for range n {
		list = append(list, newRawClient(t, s))
	}
	most := 0
	eventually(t, "the connections beyond the limit refused", func() bool {
		most = max(most, openDescriptors(t)-before-n)
		return strings.Contains(log(), "CLIENT_LIMIT")
	})
	if limit := 30 + client.MaxRefusing*connectionDescriptors + 2; most > limit {
		t.Errorf("%d connections held %d descriptors of the server, expected %d at most", n, most, limit)
	}
	// The server accepts in order, so none of them is left to be accepted.
	eventually(t, "the connections beyond the limit closed", func() bool { return hungUp(list) >= n-30/connectionDescriptors })
	for _, c := range list {
		c.close()
	}
	// A connection, its process and its file.
	eventually(t, "all closed", func() bool { return a.Descriptors.Held() == connectionDescriptors+client.ProcessDescriptors+1 })
	eventually(t, "few descriptors", func() bool { return openDescriptors(t) <= before })
	newTestClient(t, s).open("uverbs0")
}

// A server that the system gives no more descriptors continues when it gets some, and neither spins nor fills the log.
func TestServerSurvivesWithoutFreeDescriptors(t *testing.T) {
	s, log := newServerFor(t, "127.14.11.5", nil)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	// The connection is made with the last descriptor, so that there is none for the server's end of it.
	var filled []int
	defer func() {
		for _, fd := range filled {
			unix.Close(fd)
		}
	}()
	next, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(next)
	limit := unix.Rlimit{Cur: uint64(next) + 8, Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	restored := false
	restore := func() {
		if !restored {
			restored = true
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
				t.Error(err)
			}
		}
	}
	defer restore()
	sock, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &rawClient{t, sock}
	defer c.close()
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		filled = append(filled, fd)
	}
	if err := unix.Connect(sock, &unix.SockaddrUnix{Name: s.Socket()}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lack of descriptors told", func() bool { return strings.Contains(log(), "SERVER_DESCRIPTORS") })
	restore()
	// The connection that waited is served now.
	c.send(uapi.Bytes(&uapi.Request{Version: uapi.Protocol, Op: uapi.OpHello}), 0)
	p := []unix.PollFd{{Fd: int32(sock), Events: unix.POLLIN}}
	if n, err := unix.Poll(p, int(timeLimit.Milliseconds())); n != 1 {
		t.Errorf("no answer when there were descriptors again: %v", err)
	}
}
