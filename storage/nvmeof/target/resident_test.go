package target_test

import (
	"bytes"
	"errors"
	"testing"

	"softrdma/storage/block"
	"softrdma/storage/nvmeof/target"
	"softrdma/verbs"
)

// A watched backend counts what the target does with it. The target's goroutines are idle when a test looks.
type watched struct {
	block.Resident
	refuses bool // to pin
	pins    int
	unpins  int
	reads   int
}

func (w *watched) Pin(off, n int64, at []block.Extent) ([]block.Extent, bool) {
	if w.refuses {
		return at, false
	}
	w.pins++
	return w.Resident.Pin(off, n, at)
}

func (w *watched) Unpin(off, n int64, at []block.Extent) {
	w.unpins++
	w.Resident.Unpin(off, n, at)
}

func (w *watched) ReadAt(b []byte, off int64) (int, error) {
	w.reads++
	return w.Resident.ReadAt(b, off)
}

// What a host reads is sent from the backend's memory, and copied only if the backend refuses that. The
// memory is not in use any more when the namespace has been removed.
func TestReadsAreSentFromTheBackendsMemory(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		memory := newMemory(t)
		disk := &watched{Resident: memory}
		sub := s.subsystem(t, disk)
		c, n := s.disk(t, 1)
		want := make([]byte, 200<<10)
		for i := range want {
			want[i] = byte(i >> 9)
		}
		if _, err := n.WriteAt(want, 64<<10); err != nil {
			t.Fatal(err)
		}
		read := func() {
			t.Helper()
			got := make([]byte, len(want))
			if _, err := n.ReadAt(got, 64<<10); err != nil || !bytes.Equal(got, want) {
				t.Errorf("read: %v, equal %v", err, bytes.Equal(got, want))
			}
		}
		read()
		if disk.pins == 0 || disk.reads > 0 {
			t.Errorf("expected pins and no reads, found %d and %d", disk.pins, disk.reads)
		}
		pins := disk.pins
		disk.refuses = true
		read()
		if disk.pins != pins || disk.reads == 0 {
			t.Errorf("while pins are refused: expected reads and no pins, found %d and %d", disk.reads, disk.pins-pins)
		}
		if err := memory.Close(); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("closed in use: %v", err)
		}
		if err := s.target.RemoveNamespace(sub, 1); err != nil {
			t.Error(err)
		}
		if disk.unpins != pins {
			t.Errorf("expected %d unpins, found %d", pins, disk.unpins)
		}
		if err := memory.Close(); err != nil {
			t.Errorf("closed after the removal: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
