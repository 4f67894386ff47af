package memory

import (
	"bytes"
	"slices"
	"testing"
	"unsafe"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// A recorder notes the bytes before and after each write of the device.
type recorder struct {
	mem     []byte
	before  []byte
	changed []int // first bytes that a write changed
	open    bool
}

func (w *recorder) Writing(b []byte) {
	w.before = bytes.Clone(w.mem)
	w.open = len(b) == 8
}

func (w *recorder) Wrote() {
	if !w.open {
		return
	}
	for i := range w.mem {
		if w.mem[i] != w.before[i] {
			w.changed = append(w.changed, i)
			break
		}
	}
	w.open = false
}

// A watcher is told before each way in which the device writes, also through a window, and after it.
func TestWatcherIsToldOfEveryWrite(t *testing.T) {
	table := NewTable()
	words := make([]uint64, 8)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 64)
	r, err := table.Register(1, mem, 0x1000, qp.LocalWrite|qp.RemoteWrite|qp.RemoteAtomic|qp.MWBind)
	if err != nil {
		t.Fatal(err)
	}
	w := &recorder{mem: mem}
	r.Watch(w)
	key, err := table.AllocWindow(1, MW2)
	if err != nil {
		t.Fatal(err)
	}
	bind := Bind{Window: key, NewKey: key & 0xff, Region: r.Key, PD: 1, Addr: 0x1000, Length: 64, Access: qp.RemoteWrite}
	if d := table.Bind(&bind); d.Reason != reason.None {
		t.Fatal(d)
	}
	data := []byte{1, 1, 1, 1, 1, 1, 1, 1}
	var c Cursor
	c.Scatter(table, 1, []SGE{{0x1000, 8, r.Key}}, 0, data)
	r.Put(0x1008, data)
	r.FetchAdd(0x1010, 1)
	r.CompareSwap(0x1018, 0, 1)
	r.SetWord(0x1020, 1)
	table.Lookup(key).Put(0x1028, data)
	if want := []int{0, 8, 16, 24, 32, 40}; !slices.Equal(w.changed, want) {
		t.Errorf("expected writes that change bytes %v, found %v", want, w.changed)
	}
	if r.Place(0x1000, 8) != nil {
		t.Error("a socket may write to a watched region")
	}
	if _, direct, _ := c.Places(table, 1, []SGE{{0x1000, 8, r.Key}}, 0, 8, nil); direct {
		t.Error("a socket may write to a list of a watched region")
	}
}
