//go:build linux

package uverbs

import (
	"encoding/binary"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/wire/uapi"
)

// librdmacm writes an event to itself at the end of rdma_resolve_addrinfo.
func TestWrittenEventComesBack(t *testing.T) {
	f := newTestClient(t, newServer(t, "127.14.1.28")).open("rdma_cm")
	to := f.alloc(4)
	q := uapi.CMCreate{Response: addrOf(to), UID: 0xaaa, PS: 0x106}
	if no := f.ucm(uapi.CMCreateID, uapi.Bytes(&q), 4); no != 0 {
		t.Fatal(no)
	}
	id := binary.NativeEndian.Uint32(to)
	write := func(w uapi.CMWriteEventCmd) syscall.Errno { return f.ucm(uapi.CMWriteEvent, uapi.Bytes(&w), 0) }
	for name, c := range map[string]struct {
		w    uapi.CMWriteEventCmd
		want syscall.Errno
	}{
		"an event of the kernel's": {uapi.CMWriteEventCmd{ID: id, Event: 9}, syscall.EINVAL},
		"an event beyond a byte":   {uapi.CMWriteEventCmd{ID: id, Event: 18 + 256}, syscall.EINVAL},
		"no such id":               {uapi.CMWriteEventCmd{ID: id + 1, Event: 18}, syscall.ENOENT},
	} {
		if no := write(c.w); no != c.want {
			t.Errorf("%s: found %v, expected %v", name, no, c.want)
		}
	}
	const room = 64
	for i := range room + 1 {
		w := uapi.CMWriteEventCmd{ID: id, Event: uint32(18 + i%2), Status: ^uint32(i), Argument: uint64(i) << 32}
		if no := write(w); no != 0 && (i < room || no != syscall.ENOBUFS) {
			t.Fatalf("event %d: %v", i, no)
		}
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLIN}}, int(timeLimit.Milliseconds())); n != 1 {
		t.Fatalf("not readable: %v", err)
	}
	ev := f.alloc(uapi.Size[uapi.CMEvent]())
	for i := range room {
		if no := f.ucm(uapi.CMGetEvent, uapi.Bytes(&uapi.Response{Response: addrOf(ev)}), len(ev)); no != 0 {
			t.Fatalf("event %d: %v", i, no)
		}
		e, _ := uapi.Parse[uapi.CMEvent](ev)
		if e.UID != 0xaaa || e.ID != id || e.Event != uint32(18+i%2) || e.Status != ^uint32(i) || binary.NativeEndian.Uint64(e.Param[:]) != uint64(i)<<32 {
			t.Fatalf("event %d: %+v", i, e)
		}
	}
	if no := f.ucm(uapi.CMGetEvent, uapi.Bytes(&uapi.Response{Response: addrOf(ev)}), len(ev)); no != syscall.EAGAIN {
		t.Errorf("another event: %v", no)
	}
}
