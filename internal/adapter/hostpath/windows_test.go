package hostpath

import (
	"slices"
	"sync"
	"testing"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// A bound is a window on mapped.
type bound struct {
	table  *memory.Table
	region *memory.Region
	key    uint32
}

func bindWindow(t *testing.T) *bound {
	t.Helper()
	b := &bound{table: memory.NewTable()}
	var err error
	if b.region, err = b.table.Register(1, mapped, 0, qp.MWBind|qp.RemoteRead); err != nil {
		t.Fatal(err)
	}
	if b.key, err = b.table.AllocWindow(1, memory.MW1); err != nil {
		t.Fatal(err)
	}
	b.again(t)
	return b
}

// again binds the window again, which ends the binding before.
func (b *bound) again(t *testing.T) {
	t.Helper()
	d := b.table.Bind(&memory.Bind{Window: b.key, NewKey: b.key ^ 1, Region: b.region.Key, Length: uint64(len(mapped)), Access: qp.RemoteRead, PD: 1})
	if d.Reason != reason.None {
		t.Fatal(d)
	}
	b.key ^= 1
}

func (e *end) sendWindow(w *memory.Region, n int) {
	s := e.Find(place, 5).To(5)
	s.Longest(1024)
	s.Post(&Item{Header: []byte("header"), Pieces: [][]byte{mapped[:n]}, Len: n, Stable: true, Region: w})
	e.Flush()
}

// Another lane revokes the references to a window whose binding has ended. The peer's messages
// are lost, and this lane's machines learn of it by the next call of Invalidated.
func TestOtherLaneRevokesWindows(t *testing.T) {
	a, b := newPair(t)
	w := bindWindow(t)
	a.sendWindow(w.table.Lookup(w.key), 9000)
	w.again(t)
	a.RevokeWindowsOutside()
	if b.Receive(0); len(b.got) != 0 || b.lost != 1 || !slices.Equal(b.refused, []reason.Reason{reason.HostRevoked}) {
		t.Errorf("found %d messages, %d lost, refused %v", len(b.got), b.lost, b.refused)
	}
	if a.revoked != 0 {
		t.Error("the machines were called by another lane")
	}
	if !a.Invalidated(w.table.Invalidations()) || a.revoked != 1 {
		t.Errorf("the machines were told %d times", a.revoked)
	}
	a.sendWindow(w.table.Lookup(w.key), 9000)
	if b.Receive(0); len(b.got) != 1 {
		t.Errorf("found %d messages of the new binding", len(b.got))
	}
}

// The binding ends between the machine's look at the key and the posting.
func TestWindowThatEndsBeforePosting(t *testing.T) {
	a, b := newPair(t)
	w := bindWindow(t)
	before := w.table.Lookup(w.key)
	w.again(t)
	a.RevokeWindowsOutside()
	a.sendWindow(before, 9000)
	if b.Receive(0); len(b.got) != 0 || b.lost != 1 {
		t.Errorf("found %d messages, %d lost", len(b.got), b.lost)
	}
	if a.Invalidated(w.table.Invalidations()); a.revoked != 1 {
		t.Errorf("the machines were told %d times", a.revoked)
	}
}

// A lane posts, receives the paths' end and gets new ones while another one revokes.
func TestOtherLaneRevokesAtAnyTime(t *testing.T) {
	a, b := newPair(t)
	w := bindWindow(t)
	stop := make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				a.RevokeWindowsOutside()
			}
		}
	})
	const rounds = 300
	for i := range rounds {
		a.sendWindow(w.table.Lookup(w.key), 9000)
		b.Receive(0)
		if i%10 == 9 {
			a.Remove(a.channel)
			b.Remove(b.channel)
			a.channel, b.channel = fresh(t, a, b)
		}
	}
	close(stop)
	other.Wait()
	if len(b.got)+b.lost != rounds {
		t.Errorf("%d messages, %d lost", len(b.got), b.lost)
	}
}

// fresh connects two ends by a new channel.
func fresh(t *testing.T, a, b *end) (x, y *hostmem.Channel) {
	t.Helper()
	other, more := newPair(t)
	x, y = other.channel, more.channel
	x.Far, y.Far = a, b
	a.Add(x, false)
	b.Add(y, false)
	return x, y
}
