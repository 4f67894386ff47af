package block

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// A pin is what a test has pinned, with the bytes that must stay there.
type pin struct {
	off, n int64
	at     []Extent
	want   []byte
}

func (p *pin) bytes(m *Memory) (b []byte) {
	for _, e := range p.at {
		b = append(b, m.Memory()[e.Offset:][:e.Length]...)
	}
	return b
}

// Pinned bytes stay as they are, whatever is written and trimmed, and the device has what was written.
func TestMemoryKeepsPinnedBytes(t *testing.T) {
	const size, accesses = 8 * pageSize, 800
	m := newMemory(t, size)
	r := rand.New(rand.NewPCG(1, 2))
	model := make([]byte, size)
	var pins []pin
	full := 0
	for range accesses {
		off := r.Int64N(size/512) * 512
		n := min(1+r.Int64N(2*pageSize/512), (size-off)/512) * 512
		switch r.IntN(5) {
		case 0:
			data := bytes.Repeat([]byte{byte(r.IntN(256))}, int(n))
			if _, err := m.WriteAt(data, off); err != nil {
				t.Fatal(err)
			}
			copy(model[off:], data)
		case 1:
			if err := m.Trim(off, n); err != nil {
				t.Fatal(err)
			}
			clear(model[off : off+n])
		case 2, 3:
			p := pin{off: off, n: n, want: slices.Clone(model[off : off+n])}
			var ok bool
			if p.at, ok = m.Pin(off, n, make([]Extent, 0, 4)); !ok {
				full++
				break
			}
			pins = append(pins, p)
		case 4:
			if len(pins) == 0 {
				break
			}
			i := r.IntN(len(pins))
			p := pins[i]
			pins = slices.Delete(pins, i, i+1)
			if got := p.bytes(m); !bytes.Equal(got, p.want) {
				t.Fatalf("the pinned bytes at %d have changed", p.off)
			}
			m.Unpin(p.off, p.n, p.at)
		}
		got := make([]byte, n)
		if _, err := m.ReadAt(got, off); err != nil || !bytes.Equal(got, model[off:off+n]) {
			t.Fatalf("%d bytes at %d are not what was written: %v", n, off, err)
		}
	}
	if full == 0 || full > accesses/3 {
		t.Errorf("expected some pins to be refused, found %d", full)
	}
	for _, p := range pins {
		m.Unpin(p.off, p.n, p.at)
	}
	if n := m.pinned.Load(); n != 0 {
		t.Errorf("%d pages are pinned at the end", n)
	}
	for i := range m.refs {
		if m.refs[i].Load() > 1 {
			t.Errorf("slot %d has %d references", i, m.refs[i].Load())
		}
	}
}

// A pin needs no more pieces than it is given room for, and bytes that were never written need none of
// their own.
func TestMemoryPinsInPieces(t *testing.T) {
	m := newMemory(t, 32*pageSize)
	at, ok := m.Pin(512, 16*pageSize-512, make([]Extent, 0, 1))
	if !ok || len(at) != 1 || at[0].Length != 16*pageSize-512 {
		t.Fatalf("zeros: %v, %v", at, ok)
	}
	m.Unpin(512, 16*pageSize-512, at)
	if _, err := m.WriteAt(make([]byte, pageSize), 3*pageSize); err != nil {
		t.Fatal(err)
	}
	if at, ok := m.Pin(2*pageSize, 3*pageSize, make([]Extent, 0, 2)); ok || len(at) != 0 {
		t.Errorf("three pieces in a list of two: %v, %v", at, ok)
	}
	if _, ok := m.Pin(31*pageSize, 2*pageSize, make([]Extent, 0, 2)); ok {
		t.Error("bytes beyond the end were pinned")
	}
	if n := m.pinned.Load(); n != 0 {
		t.Errorf("%d pages are pinned at the end", n)
	}
}

// A write finds that its page is pinned, and the pin ends before the write takes another slot. Meanwhile
// pins of other pages have all of them, perhaps for as long as a host takes no data.
func TestMemoryKeepsSlotWhosePinHasEnded(t *testing.T) {
	const size = 2 * pageSize
	m := newMemory(t, size)
	write := func() {
		t.Helper()
		if _, err := m.WriteAt(make([]byte, pageSize), pageSize); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.WriteAt(make([]byte, size), 0); err != nil {
		t.Fatal(err)
	}
	var all [][]Extent
	for range m.spare {
		at, ok := m.Pin(pageSize, pageSize, make([]Extent, 0, 1))
		if !ok {
			t.Fatal("a pin was refused")
		}
		all = append(all, at)
		write()
	}
	taken := make(chan int32, 1)
	go func() { taken <- m.take(0, m.pages[0].at) }()
	select {
	case slot := <-taken:
		if slot != m.pages[0].at {
			t.Errorf("expected slot %d, found %d", m.pages[0].at, slot)
		}
	case <-time.After(10 * time.Second):
		t.Error("the write waits for pins of another page")
	}
	for _, at := range all {
		m.Unpin(pageSize, pageSize, at)
	}
}

// A block that is read while it is written has the bytes of one of the writes.
func TestMemoryPinsOneWrite(t *testing.T) {
	m := newMemory(t, 2*pageSize)
	var work sync.WaitGroup
	for id := range 2 {
		work.Go(func() {
			for i := range 40 {
				b := bytes.Repeat([]byte{byte(2*i + id)}, pageSize)
				if _, err := m.WriteAt(b, 0); err != nil {
					t.Error(err)
				}
			}
		})
		work.Go(func() {
			for range 40 {
				at, ok := m.Pin(0, pageSize, make([]Extent, 0, 1))
				if !ok {
					continue
				}
				b := m.Memory()[at[0].Offset:][:pageSize]
				if !bytes.Equal(b, bytes.Repeat(b[:1], pageSize)) {
					t.Error("the pinned bytes are of several writes")
				}
				m.Unpin(0, pageSize, at)
			}
		})
	}
	work.Wait()
}
