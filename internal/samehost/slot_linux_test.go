package samehost

import (
	"os"
	"path/filepath"
	"testing"

	"softrdma/internal/reason"
)

func TestNamesOfSlots(t *testing.T) {
	n := name{kind: "rocev2", local: addr("10.0.0.1:4791"), slot: slot{7, 256}, space: space{4, 1}, since: 36}
	const text = "rocev2_10.0.0.1_4791+7+256_4-1_10"
	if n.String() != text {
		t.Errorf("name %q, expected %q", n, text)
	}
	if got, ok := parseName(text); !ok || got != n {
		t.Errorf("parsed %+v, %v", got, ok)
	}
	for _, s := range []string{
		"rocev2_10.0.0.1_4791+0+256_4-1_10", "rocev2_10.0.0.1_4791+256+256_4-1_10", "rocev2_10.0.0.1_4791+7_4-1_10",
		"rocev2_10.0.0.1_4791+_4-1_10", "rocev2_10.0.0.1_4791+07+256_4-1_10", "rocev2_10.0.0.1_4791+7+65537_4-1_10",
		"rocev2_10.0.0.1_4791+-7+256_4-1_10", "rocev2_10.0.0.1_4791+7+256+1_4-1_10",
	} {
		if got, ok := parseName(s); ok {
			t.Errorf("%q was parsed to %+v", s, got)
		}
	}
}

// Devices that share an address are separate peers, to each other and to other devices.
func TestDevicesOfOneAddress(t *testing.T) {
	dir := t.TempDir()
	shared := addr("127.0.0.1:4791")
	first := openDevice(t, Config{Dir: dir, Local: shared, Stack: 1, Lanes: 2, Of: 256})
	a := openDevice(t, Config{Dir: dir, Local: shared, Stack: 2, First: 2, Of: 256})
	b := openDevice(t, Config{Dir: dir, Local: shared, Stack: 3, First: 3, Of: 256})
	other := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 4})
	const ofFirst, ofA, ofB, ofNone = 0x123401, 0x123402, 0x123403, 0x123404
	reach := func(from *device, qpn uint32, to *device) {
		t.Helper()
		known, _ := to.seen()
		if err := from.Reach(shared, qpn, timeLimit); err != nil {
			t.Fatal(err)
		}
		if n, _ := to.seen(); n != known+1 {
			t.Fatalf("QPN %#x: %d channels, expected %d", qpn, n, known+1)
		}
		if c := to.latest(); c.First != from.cfg.First || c.Lanes != from.cfg.Lanes || c.Of != from.cfg.Of || c.Peer != from.cfg.Local {
			t.Errorf("channel to %v, lanes %d+%d of %d", c.Peer, c.First, c.Lanes, c.Of)
		}
	}
	reach(other, ofA, a)
	reach(other, ofB, b)
	reach(other, 0, first)
	reach(a, ofB, b)
	reach(a, ofFirst, first)
	if err := other.Reach(shared, ofNone, timeLimit); err != nil { // the channel to the first
		t.Error(err)
	}
	if n, _ := other.seen(); n != 3 {
		t.Errorf("%d channels, expected 3", n)
	}
	b.close()
	if err := other.until(func(_, detached int) bool { return detached == 1 }); err != nil {
		t.Fatal(err)
	}
	if why := other.Why(shared, ofB); why.Reason != reason.None { // its lane belongs to no published device
		t.Errorf("why %v", why)
	}
	if n, gone := other.seen(); n != 3 || gone != 1 || other.Why(shared, ofA).Reason != reason.None {
		t.Errorf("%d channels, %d of them gone, why %v", n, gone, other.Why(shared, ofA))
	}
}

// Queue pair 0 stands for any device of an address, even if the owner of the address has gone.
func TestReachAnyDeviceOfAnAddress(t *testing.T) {
	dir := t.TempDir()
	shared := addr("127.0.0.1:4791")
	first := openDevice(t, Config{Dir: dir, Local: shared, Stack: 1, Of: 256})
	a := openDevice(t, Config{Dir: dir, Local: shared, Stack: 2, First: 2, Of: 256})
	for i, to := range []*device{first, a} {
		from := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: uint64(3 + i)})
		if err := from.Reach(shared, 0, timeLimit); err != nil {
			t.Fatal(err)
		}
		if c := from.latest(); c.First != to.cfg.First {
			t.Errorf("reached the device of lane %d, expected %d", c.First, to.cfg.First)
		}
		from.close()
		first.close()
	}
}

// The owner of an address removes the name of a killed program, even before it has published
// its own device.
func TestRemoveSlot(t *testing.T) {
	dir := t.TempDir()
	first := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1, Of: 256})
	left := name{kind: "rocev2", local: first.cfg.Local, slot: slot{7, 256}, space: first.name.space, since: 1}
	l, err := first.dir.listen(left, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	hidden := filepath.Join(dir, "."+left.String())
	if err := os.WriteFile(hidden, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if first.RemoveSlot(8, 256); count() != 3 {
		t.Error("a name of another slot was removed")
	}
	if first.RemoveSlot(7, 256); count() != 1 {
		t.Error("a name is left")
	}
}
