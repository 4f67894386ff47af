//go:build linux && !softrdma_portable

package udp

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"softrdma/internal/link"
)

// numbered makes a batch that has its number in each packet.
func numbered(f *link.DatagramFlow, n, size int, queue, number uint32) *link.Tx {
	tx := batch(f, n, size, 0)
	tx.Queue = queue
	for i := 0; i < len(tx.Pieces); i += 3 {
		binary.BigEndian.PutUint32(tx.Pieces[i][4:], queue) // as in the BTH
		binary.BigEndian.PutUint32(tx.Pieces[i][8:], number)
	}
	return tx
}

// numberOf returns the number of a batch, and fails the test if a byte of it has changed.
func numberOf(t *testing.T, f *link.DatagramFlow, rx *link.Rx) uint32 {
	t.Helper()
	if len(rx.Data) < 12 {
		t.Fatalf("received %d bytes", len(rx.Data))
	}
	queue, number := binary.BigEndian.Uint32(rx.Data[4:]), binary.BigEndian.Uint32(rx.Data[8:])
	if want := bytes.Join(numbered(f, len(rx.Data)/rx.Size, rx.Size, queue, number).Pieces, nil); !bytes.Equal(rx.Data, want) {
		t.Fatalf("batch %d of queue pair %d has changed", number, queue)
	}
	return number
}

// receiveUpTo receives at most n batches, and returns the numbers. They must come in order.
func receiveUpTo(t *testing.T, l *Link, f *link.DatagramFlow, n int) (numbers []uint32) {
	t.Helper()
	var rx link.Rx
	for len(numbers) < n {
		ok, err := l.Receive(&rx)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		numbers = append(numbers, numberOf(t, f, &rx))
		if k := len(numbers); k > 1 && numbers[k-1] <= numbers[k-2] {
			t.Fatalf("batch %d after %d", numbers[k-1], numbers[k-2])
		}
	}
	return numbers
}

// sendStages sends as many bytes as several stages hold, and returns the number of batches and
// how many of them were spliced.
func sendStages(t *testing.T, a *Link, f *link.DatagramFlow, from uint32, each func()) (end uint32, count int) {
	t.Helper()
	g := &a.flows.find(&f.Flow).end.stage
	for sent := 0; sent < 50<<20; from++ {
		tx := numbered(f, 15, 4112, 2, from)
		at := g.at
		send(t, a, tx)
		if g.at != at {
			count++
		}
		sent += tx.Bytes
		if each != nil {
			each()
		}
	}
	return from, count
}

// A receiver that does not read has a full socket. Its contents must not change, whatever
// follows, and the stage is used again when the receiver reads.
func TestStoppedReceiverKeepsItsBatches(t *testing.T) {
	for _, host := range loopbacks(t) {
		a, b, f := spliced(t, host)
		end, count := sendStages(t, a, f, 0, nil)
		if count < 50 || count == int(end) {
			t.Errorf("%s: %d of %d batches were spliced", host, count, end)
		}
		got := receiveUpTo(t, b, f, int(end))
		if len(got) < 50 || got[len(got)-1] != uint32(len(got)-1) {
			t.Errorf("%s: received %d batches up to %d", host, len(got), got[len(got)-1])
		}
		end2, count := sendStages(t, a, f, end, func() { receiveUpTo(t, b, f, 2) })
		if n := int(end2 - end); count < n*3/4 {
			t.Errorf("%s: after the receiver went on, %d of %d batches were spliced", host, count, n)
		}
	}
}

// A receiver that is too slow loses packets, but never receives changed ones.
func TestSlowReceiverReceivesNoChangedBatch(t *testing.T) {
	a, b, f := spliced(t, "127.0.0.1")
	r := rand.New(rand.NewPCG(1, 2))
	received := 0
	_, count := sendStages(t, a, f, 0, func() {
		switch r.IntN(64) {
		case 0:
			received += len(receiveUpTo(t, b, f, 40))
		case 1:
			received += len(receiveUpTo(t, b, f, 1))
		}
	})
	received += len(receiveUpTo(t, b, f, 1<<20))
	if count < 100 || received < 100 {
		t.Errorf("%d batches were spliced and %d received", count, received)
	}
}

// An address has a socket for each lane. A batch that is queued at one must not change while
// others pass through the other one.
func TestBatchAtIdleLaneKeepsItsBytes(t *testing.T) {
	for _, n := range []int{2, 3} {
		a, _ := pair(t, "127.0.0.1", Config{})
		needSplice(t, a)
		lanes, err := OpenLanes(netip.MustParseAddrPort("127.0.0.1:0"), Config{}, n)
		if err != nil {
			t.Fatal(err)
		}
		defer closeAll(lanes)
		f := openFlow(t, a, lanes[0].Local(), 1)
		g := &a.flows.find(&f.Flow).end.stage
		g.before = spliceAfter
		send(t, a, numbered(f, 15, 4112, uint32(n)*256+1, 7)) // stays queued at lane 1
		count := 0
		for i := range uint32(1000) {
			at := g.at
			send(t, a, numbered(f, 15, 4112, uint32(n)*256, i)) // at lane 0
			if g.at != at {
				count++
			}
			receiveUpTo(t, lanes[0], f, 2)
		}
		if count < 100 || count == 1000 {
			t.Errorf("%d lanes: %d of 1000 batches were spliced: expected as many as the stage holds", n, count)
		}
		if got := receiveUpTo(t, lanes[1], f, 2); len(got) != 1 || got[0] != 7 {
			t.Errorf("%d lanes: the idle lane received batches %v, expected 7", n, got)
		}
		for i := range uint32(1000) {
			send(t, a, numbered(f, 15, 4112, uint32(n)*256, i))
			receiveUpTo(t, lanes[0], f, 2)
		}
		if g.many > 0 && g.batch(0).queue == uint32(n)*256+1 {
			t.Errorf("%d lanes: the batch of the idle lane still has its place", n)
		}
	}
}

func TestStageReleasesDeliveredBatches(t *testing.T) {
	const size, big = 60 << 10, 1 << 20
	for _, c := range []struct {
		name      string
		queues    []uint32 // of the batches in turn
		first     int      // batches sent before an earlier look
		w         waiting
		elsewhere int
		freed     int
	}{
		{name: "nothing waits", queues: []uint32{2}, w: waiting{sockets: 1}, freed: 35},
		{name: "a megabyte waits", queues: []uint32{2}, w: waiting{sockets: 1, largest: big, total: big}, freed: 10},
		{name: "a megabyte waits in the interface's queue", queues: []uint32{2}, w: waiting{sockets: 1}, elsewhere: big, freed: 10},
		{name: "more waits than was sent", queues: []uint32{2}, w: waiting{sockets: 1, largest: 3 * big, total: 3 * big}},
		{name: "all may have been dropped", queues: []uint32{2}, w: waiting{sockets: 1, drops: 1}},
		{name: "the later half may have been dropped", queues: []uint32{2}, first: 20, w: waiting{sockets: 1, drops: 1}, freed: 15},
		{name: "queue pairs of one socket", queues: []uint32{2, 3}, w: waiting{sockets: 1}, freed: 35},
		{name: "queue pairs of two sockets", queues: []uint32{2, 3}, w: waiting{sockets: 2}, freed: 30},
		{name: "queue pairs of one lane", queues: []uint32{0x102, 0x202}, w: waiting{sockets: 2}, freed: 35},
		{name: "queue pairs of perhaps two lanes of three", queues: []uint32{0x102, 0x202}, w: waiting{sockets: 3}, freed: 30},
		{name: "the oldest is alone at its socket", queues: append([]uint32{3}, make([]uint32, 39)...), w: waiting{sockets: 2}},
	} {
		var g stage
		g.open(make([]byte, 10<<20), 0, new(int))
		for i := range 40 {
			g.put(c.queues[i%len(c.queues)], size, true)
			if i < c.first {
				g.batch(i).fresh = false
			}
		}
		g.release(c.w, c.elsewhere)
		if freed := 40 - g.many; freed != c.freed || g.used != g.many*size {
			t.Errorf("%s: %d batches are free and %d bytes used, expected %d and %d", c.name, freed, g.used, c.freed, (40-c.freed)*size)
		}
	}
}

// A batch without a successor is free after two looks that find nothing, and not after one.
func TestStageReleasesAllAfterTwoEmptyLooks(t *testing.T) {
	var g stage
	g.open(make([]byte, 10<<20), 0, new(int))
	g.put(2, 60<<10, true)
	for _, w := range []waiting{{sockets: 1}, {sockets: 1, largest: 1, total: 1}} {
		if g.release(w, 0); g.many != 1 {
			t.Fatal("the batch is free at once")
		}
	}
	if g.release(waiting{sockets: 1}, 1); g.many != 1 {
		t.Error("the batch is free while something waits elsewhere")
	}
	if g.release(waiting{sockets: 1}, 0); g.many != 0 || g.used != 0 {
		t.Errorf("%d batches and %d bytes are not free after two empty looks", g.many, g.used)
	}
}

// Batches to more queue pairs than a look distinguishes stay until nothing is queued.
func TestStageOfManyQueuePairsWaitsForEmptyLooks(t *testing.T) {
	var g stage
	g.open(make([]byte, 10<<20), 0, new(int))
	for i := range uint32(120) {
		g.put(i%(stageKeys+8), 60<<10, true)
	}
	if g.release(waiting{sockets: 3}, 0); g.many != 120 {
		t.Errorf("%d of 120 batches are not free", g.many)
	}
	if g.release(waiting{sockets: 3}, 0); g.many != 0 {
		t.Errorf("%d of 120 batches are not free after two empty looks", g.many)
	}
}

// The places in the ring cover its bytes, whatever their lengths, and do not overlap.
func TestStagePlacesDoNotOverlap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var g stage
	g.open(make([]byte, 1<<20), 0, new(int))
	owner := make([]int, len(g.mem)/pageSize) // batch of a page; 0 if it has none
	type place struct{ from, pages int }
	var places []place
	for i := 1; i < 20000; i++ {
		for !g.room() || r.IntN(4) == 0 && g.many > 0 {
			before := g.many
			g.release(waiting{sockets: 1, total: 1, largest: r.IntN(1 << 19)}, 0)
			for range before - g.many {
				clear(owner[places[0].from : places[0].from+places[0].pages])
				places = places[1:]
			}
			if g.many == before {
				g.release(waiting{sockets: 1}, 0)
				g.release(waiting{sockets: 1}, 0)
				clear(owner)
				places = nil
			}
		}
		n := spliceFrom + r.IntN(stageSlot-spliceFrom+1)
		p := place{g.at / pageSize, (n + pageSize - 1) / pageSize}
		for j := range p.pages {
			if owner[p.from+j] != 0 {
				t.Fatalf("page %d of batch %d is batch %d's", p.from+j, i, owner[p.from+j])
			}
			owner[p.from+j] = i
		}
		places = append(places, p)
		g.put(2, n, r.IntN(8) > 0)
	}
}
