//go:build linux && !softrdma_portable

package udp

import (
	"errors"
	"net/netip"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
)

// openSlots opens an address with n lanes for its owner and of in total.
func openSlots(t *testing.T, host string, n, of int) ([]*Link, *Slots) {
	t.Helper()
	links, s, err := OpenSlots(netip.AddrPortFrom(netip.MustParseAddr(host), 0), Config{}, n, of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		for _, l := range links {
			_ = l.Close()
		}
	})
	return links, s
}

// take opens the link of the next free lane.
func take(t *testing.T, s *Slots) (*Link, int) {
	t.Helper()
	return takeWith(t, s, Config{})
}

func takeWith(t *testing.T, s *Slots, cfg Config) (*Link, int) {
	t.Helper()
	lane, fds, err := s.Take()
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenSlot(fds, s.local, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, lane
}

// deliver sends a packet to a queue pair, and checks that it arrives at one link.
func deliver(t *testing.T, from, to *Link, qpn uint32) {
	t.Helper()
	f := openFlow(t, from, to.Local(), qpn)
	p := packetTo(qpn, 64)
	send(t, from, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{p}, Bytes: len(p), Size: len(p)})
	var rx link.Rx
	receive(t, to, &rx)
	if string(rx.Data) != string(p) {
		t.Fatalf("packet for %#x: received %d bytes", qpn, len(rx.Data))
	}
}

func TestSlotsTakeTheirPackets(t *testing.T) {
	for _, host := range loopbacks(t) {
		own, s := openSlots(t, host, 2, 256)
		a, _ := pair(t, host, Config{})
		all := own
		for i := range 3 {
			l, lane := take(t, s)
			if lane != 2+i {
				t.Fatalf("slot %d has lane %d", i, lane)
			}
			all = append(all, l)
		}
		for i, l := range all {
			deliver(t, a, l, uint32(0xab00+i))
			deliver(t, l, all[(i+1)%len(all)], uint32(0xcd00+(i+1)%len(all)))
		}
		deliver(t, a, own[0], 1) // management
	}
}

// A lane that is lent again has nothing of what was sent to its former program.
func TestSlotsAreReusedEmpty(t *testing.T) {
	_, s := openSlots(t, "127.0.0.1", 1, 256)
	a, _ := pair(t, "127.0.0.1", Config{})
	first, _ := take(t, s)
	second, _ := take(t, s)
	f := openFlow(t, a, first.Local(), 1)
	late := packetTo(0xab01, 64)
	tx := &link.Tx{Flow: &f.Flow, Pieces: [][]byte{late}, Bytes: len(late), Size: len(late)}
	send(t, a, tx)
	_ = first.Close()
	send(t, a, tx)
	s.Give(1)
	send(t, a, tx)
	again, lane := take(t, s)
	if lane != 1 || s.lanes.Taken() != 2 {
		t.Fatalf("lane %d lent again, %d taken, expected lane 1 and 2 taken", lane, s.lanes.Taken())
	}
	deliver(t, a, again, 0xab01)
	deliver(t, a, second, 0xab02)
	var rx link.Rx
	if ok, _ := again.Receive(&rx); ok {
		t.Errorf("received a packet of the former program: % x", rx.Data)
	}
}

func TestSlotsAreLimited(t *testing.T) {
	_, s := openSlots(t, "127.0.0.1", 1, 3)
	take(t, s)
	take(t, s)
	_, _, err := s.Take()
	var why *reason.Error
	if !errors.As(err, &why) || why.Detail != (reason.Detail{Reason: reason.SlotsTaken, Expected: 2, Found: 2}) {
		t.Fatalf("third of 2 slots: %v", err)
	}
	s.Give(2)
	if _, lane := take(t, s); lane != 2 {
		t.Errorf("lane %d lent, expected 2", lane)
	}
}

// When the owner of the address and some programs have ended, packets to the others still
// arrive at their lanes. The address is in use until the last of them has ended.
func TestSlotsOutliveTheOwner(t *testing.T) {
	own, s := openSlots(t, "127.0.0.1", 1, 256)
	a, _ := pair(t, "127.0.0.1", Config{})
	first, _ := take(t, s)
	second, _ := take(t, s)
	third, _ := take(t, s)
	_ = first.Close()
	s.Close()
	_ = own[0].Close()
	deliver(t, a, second, 0xab02)
	deliver(t, a, third, 0xab03)
	_ = second.Close()
	deliver(t, a, third, 0xab03)
	if _, err := Open(s.local, Config{}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another device while a program has the address: %v, expected EADDRINUSE", err)
	}
	if _, _, err := s.Take(); err == nil {
		t.Error("slot of a closed address")
	}
	_ = third.Close()
	l, err := Open(s.local, Config{})
	if err != nil {
		t.Fatalf("after the last program: %v", err)
	}
	_ = l.Close()
}

func TestSlotsKeepOthersFromTheirAddress(t *testing.T) {
	_, s := openSlots(t, "127.0.0.1", 1, 256)
	if _, _, err := OpenSlots(s.local, Config{}, 1, 256); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second owner: %v, expected EADDRINUSE", err)
	}
}

func TestOpenSlotRefusesOtherSockets(t *testing.T) {
	a, _ := pair(t, "127.0.0.1", Config{})
	other, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	end, err := unix.Dup(other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSlot([]int{other, end}, a.Local(), Config{}); err == nil {
		t.Error("link on a socket without an address")
	}
	if _, err := unix.FcntlInt(uintptr(other), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("the refused descriptor is open: %v", err)
	}
}

// A program in another network namespace has other addresses and routes.
func TestOpenSlotRefusesAnotherNetwork(t *testing.T) {
	_, s := openSlots(t, "127.0.0.1", 1, 256)
	lane, fds, err := s.Take()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Give(lane)
	own, err := unix.GetsockoptUint64(fds[0], unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		unixmsg.Descriptors(fds).Close()
		t.Skipf("SKIPPED: the system does not tell networks apart: %v", err)
	}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			unixmsg.Descriptors(fds).Close()
			result <- err
			return
		}
		l, err := OpenSlot(fds, s.local, Config{})
		if err == nil {
			_ = l.Close()
		}
		result <- err
	}()
	err = <-result
	if errors.Is(err, unix.EPERM) {
		t.Skipf("SKIPPED: no rights to make a network namespace: %v", err)
	}
	var why *reason.Error
	if !errors.As(err, &why) || why.Detail.Reason != reason.SlotNetwork || why.Detail.Found != own || why.Detail.Expected == own {
		t.Errorf("slot of another network: %v, expected SLOT_NETWORK with cookie %d", err, own)
	}
	for _, fd := range fds {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
			t.Errorf("descriptor %d of the refused slot is open: %v", fd, err)
		}
	}
}
