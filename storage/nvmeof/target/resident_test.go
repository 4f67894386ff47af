package target_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"softrdma/storage/block"
	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/target"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
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

// A host that takes one response now and then does not keep a namespace whose memory its responses are sent from.
func TestRemovedNamespaceDoesNotWaitForSlowHosts(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		memory := newMemory(t)
		sub := s.subsystem(t, memory)
		admin := newRaw(t, s, 2)
		id := admin.enable(nqn, 0)
		io := newRawQueue(t, s, 1, 1)
		data := fabrics.ConnectData{Controller: id, Subsystem: nqn, Host: host.DefaultNQN}
		copy(io.mr.Bytes(), data.Append(nil))
		io.run(fabrics.Connect{Queue: 1, QueueSize: 31}.Command(), fabrics.ConnectDataLen)
		const reads = 6
		for range reads {
			io.send(capsule.Command{Opcode: capsule.Read, NSID: 1, CDW12: 7}, 4096)
			time.Sleep(time.Second)
		}
		began := time.Now()
		removed := make(chan error, 1)
		var took time.Duration
		go func() {
			err := s.target.RemoveNamespace(sub, 1)
			took = time.Since(began)
			removed <- err
		}()
		for range reads {
			time.Sleep(20 * time.Second)
			// The queue pair fails when the target has given the host up.
			_ = io.QP().PostRecv(verbs.RecvWR{WRID: rawData, SGL: []verbs.SGE{io.mr.SGE(rawData, capsule.CompletionLen)}})
		}
		if err := <-removed; err != nil {
			t.Error(err)
		}
		if err := memory.Close(); err != nil {
			t.Errorf("the backend is in use: %v", err)
		}
		if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "a namespace that was removed") {
			t.Errorf("the reason of the end is %v", err)
		}
		if took > 35*time.Second {
			t.Errorf("the namespace was removed after %v", took)
		}
		io.end()
		admin.end()
	})
}
