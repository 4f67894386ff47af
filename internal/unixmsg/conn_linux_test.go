package unixmsg

import (
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

var testProtocol = Protocol{MaxMessage: 256, MaxDescriptors: 2, Malformed: malformed, Refused: reason.HostRefused}

// ends returns a connection and the socket at its other end.
func ends(t *testing.T) (*Conn, int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fds[1]) })
	c, err := ConnOf(fds[0])
	if err != nil {
		t.Fatal(err)
	}
	conn := NewConn(c, &testProtocol)
	t.Cleanup(func() { _ = conn.Close() })
	return conn, fds[1]
}

// openFiles returns this process's descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestConnReceiveClosesDescriptorsOfWhatItRefuses(t *testing.T) {
	refusal := testProtocol.Refusal(reason.Detail{Reason: reason.HostUser, Expected: 1, Found: 2}.Err())
	for _, c := range []struct {
		name        string
		message     []byte
		descriptors int
		want        error // or
		reason      reason.Reason
	}{
		{name: "empty", want: io.EOF},
		{name: "too long", message: make([]byte, 257), descriptors: 2, reason: reason.HostMessage},
		{name: "one descriptor too many", message: []byte{1}, descriptors: 3, reason: reason.HostMessage},
		{name: "far too many", message: []byte{1}, descriptors: 100, reason: reason.HostMessage},
		{name: "another kind", message: []byte{2}, descriptors: 2, reason: reason.HostMessage},
		{name: "a descriptor missing", message: []byte{1}, descriptors: 1, reason: reason.HostMessage},
		{name: "a refusal", message: refusal, descriptors: 2, reason: reason.HostUser},
		{name: "a damaged refusal", message: refusal[:9], reason: reason.HostMessage},
		{name: "a refusal of another version", message: append([]byte{byte(Refused)}, `{"Reason":"NEW","Text":"x"}`...), reason: reason.HostRefused},
	} {
		conn, far := ends(t)
		before := openFiles(t)
		var rights []byte
		if c.descriptors > 0 {
			rights = unix.UnixRights(slices.Repeat([]int{far}, c.descriptors)...)
		}
		if err := unix.Sendmsg(far, c.message, rights, nil, 0); err != nil {
			t.Fatal(err)
		}
		_, fds, err := conn.Expect(1, 2)
		var why *reason.Error
		if fds != nil || c.want != nil && !errors.Is(err, c.want) || c.want == nil && (!errors.As(err, &why) || why.Detail.Reason != c.reason) {
			t.Errorf("%s: %v and %d descriptors, expected %v %v", c.name, err, len(fds), c.want, c.reason)
		}
		if n := openFiles(t); n != before {
			t.Errorf("%s: %d descriptors, expected %d", c.name, n, before)
		}
	}
}

func TestConnReceiveWithoutRoomForDescriptorsSaysSo(t *testing.T) {
	conn, far := ends(t)
	if err := unix.Sendmsg(far, []byte{1}, unix.UnixRights(far, far), nil, 0); err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	next, err := unix.Dup(far) // the first free number
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(next)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next), Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	_, _, err = conn.Receive()
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); e != nil {
		t.Fatal(e)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("%v, expected %v", err, unix.EMFILE)
	}
}

func TestConnMessageArrivesWithDescriptorsAndPeer(t *testing.T) {
	conn, far := ends(t)
	message, err := testProtocol.Message(7, map[string]int{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendmsg(far, message, unix.UnixRights(far, far), nil, 0); err != nil {
		t.Fatal(err)
	}
	b, fds, err := conn.Expect(7, 2)
	if err != nil {
		t.Fatal(err)
	}
	first := fds.Take(0)
	fds.Close()
	fds.Close() // closes nothing twice
	var body map[string]int
	if err := testProtocol.Parse(b, &body); err != nil || body["a"] != 1 {
		t.Errorf("%v, %v", body, err)
	}
	if err := unix.Close(first); err != nil {
		t.Errorf("the descriptor that was taken: %v", err)
	}
	if cred, err := Peer(conn); err != nil || int(cred.Pid) != os.Getpid() || int(cred.Uid) != os.Geteuid() {
		t.Errorf("%+v, %v, expected this process", cred, err)
	}
}
