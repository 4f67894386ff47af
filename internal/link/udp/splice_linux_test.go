//go:build linux && !softrdma_portable

package udp

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// needSplice skips a test if the kernel cannot splice, or does not report what is queued in
// sockets.
func needSplice(t testing.TB, l *Link) {
	t.Helper()
	if !canSplice {
		t.Skip("this kernel's splice copies")
	}
	d := openDiagnosis(l.rx.fd)
	defer d.close()
	if d == nil {
		t.Skip("no sock_diag in this kernel")
	}
	if _, ok := d.ask(l.Local(), l.Local(), new(uint64)); !ok {
		t.Skip("this kernel's sock_diag has no UDP (module udp_diag)")
	}
}

// spliced returns two links and a flow between them whose long batches are spliced from the
// start.
func spliced(t testing.TB, host string) (a, b *Link, f *link.DatagramFlow) {
	t.Helper()
	a, b = pair(t, host, Config{})
	needSplice(t, a)
	f = openFlow(t, a, b.Local(), 1)
	a.flows.find(&f.Flow).end.stage.before = spliceAfter
	return a, b, f
}

// batch makes a batch of n packets in many pieces, like packets with headers and payloads.
func batch(f *link.DatagramFlow, n, size int, seed byte) *link.Tx {
	tx := &link.Tx{Flow: &f.Flow, Bytes: n * size, Size: size}
	for range n {
		p := pattern(size)
		p[0] = seed
		tx.Pieces = append(tx.Pieces, p[:12], p[12:size-4], p[size-4:])
	}
	return tx
}

// stageAt returns the position of the flow's next batch, or -1 if it has no stage.
func stageAt(l *Link, f *link.DatagramFlow) int {
	if g := &l.flows.find(&f.Flow).end.stage; g.mem != nil {
		return g.at
	}
	return -1
}

func TestSplicedBatchesArriveAsOthers(t *testing.T) {
	for _, host := range loopbacks(t) {
		a, b, f := spliced(t, host)
		end := 0
		for i, n := range []int{15, 8, 14, 15} {
			tx := batch(f, n, 4112, byte(i))
			first := f.First
			send(t, a, tx)
			end += (tx.Bytes + pageSize - 1) / pageSize * pageSize
			if at := stageAt(a, f); at != end {
				t.Fatalf("%s: the next batch goes to %d, expected %d: the batch was not spliced", host, at, end)
			}
			if f.Counts && f.First != first+1 {
				t.Errorf("%s: identification %d after %d, expected one more for a datagram", host, f.First, first)
			}
			var rx link.Rx
			if receive(t, b, &rx); !bytes.Equal(rx.Data, bytes.Join(tx.Pieces, nil)) || rx.Size != tx.Size || rx.Src != f.Src {
				t.Errorf("%s: received %d bytes in packets of %d from %v, expected %d in packets of %d from %v",
					host, len(rx.Data), rx.Size, rx.Src, tx.Bytes, tx.Size, f.Src)
			}
		}
	}
}

// The socket segments spliced data. A longer packet must not be segmented because of that.
func TestLongerPacketAfterSplicedBatchIsWhole(t *testing.T) {
	a, b, f := spliced(t, "127.0.0.1")
	for _, tx := range []*link.Tx{batch(f, 15, 4112, 1), batch(f, 1, 4128, 2), batch(f, 3, 1040, 3), batch(f, 1, 8200, 4), batch(f, 15, 4112, 5)} {
		send(t, a, tx)
		var rx link.Rx
		if receive(t, b, &rx); !bytes.Equal(rx.Data, bytes.Join(tx.Pieces, nil)) || rx.Size != tx.Size {
			t.Errorf("received %d bytes in packets of %d, expected %d in packets of %d", len(rx.Data), rx.Size, tx.Bytes, tx.Size)
		}
	}
}

func TestBatchOfWrongLengthIsNotSpliced(t *testing.T) {
	a, _, f := spliced(t, "127.0.0.1")
	tx := batch(f, 15, 4112, 1)
	tx.Pieces = tx.Pieces[:len(tx.Pieces)-1]
	_ = a.Send(tx)
	if at := stageAt(a, f); at != 0 {
		t.Errorf("the next batch goes to %d, expected the stage's begin", at)
	}
}

// Batches that splice refuses are sent in the normal way, and a link on which it always fails
// stops trying.
func TestFailedSpliceSendsOtherwise(t *testing.T) {
	a, b, f := spliced(t, "127.0.0.1")
	var rx link.Rx
	for i := range spliceFailures + 2 {
		if p := &a.out.splicer; p.failures < spliceFailures {
			p.pipe, p.open = [2]int{-1, -1}, true
		}
		tx := batch(f, 15, 4112, byte(i))
		send(t, a, tx)
		if receive(t, b, &rx); !bytes.Equal(rx.Data, bytes.Join(tx.Pieces, nil)) || rx.Size != tx.Size {
			t.Fatalf("batch %d: received %d bytes in packets of %d", i, len(rx.Data), rx.Size)
		}
	}
	// The kernel may have used pages of failed batches.
	if n := a.out.splicer.failures; n != spliceFailures || stageAt(a, f) != spliceFailures*stageSlot {
		t.Errorf("%d failures and the next batch at %d, expected %d and %d", n, stageAt(a, f), spliceFailures, spliceFailures*stageSlot)
	}
}

func TestOnlyLongStreamHasStage(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	f := openFlow(t, a, b.Local(), 1)
	var rx link.Rx
	for i := range spliceAfter/(15*4112) - 1 {
		send(t, a, batch(f, 15, 4112, byte(i)))
		receive(t, b, &rx)
	}
	if at := stageAt(a, f); at >= 0 {
		t.Error("a short stream has a stage")
	}
	for range 3 {
		send(t, a, batch(f, 15, 4112, 1))
		receive(t, b, &rx)
	}
	if needSplice(t, a); stageAt(a, f) < 0 {
		t.Error("a long stream has no stage")
	}
}

func TestFewFlowsHaveStages(t *testing.T) {
	a, _, first := spliced(t, "127.0.0.1")
	flows := []*link.DatagramFlow{first}
	for i := range maxStages + 1 {
		_, peer := pair(t, "127.0.0.1", Config{})
		flows = append(flows, openFlow(t, a, peer.Local(), uint32(i)))
	}
	stages := 0
	for _, f := range flows {
		g := &a.flows.find(&f.Flow).end.stage
		g.before = spliceAfter
		tx := batch(f, 15, 4112, 1)
		send(t, a, tx)
		if stageAt(a, f) >= 0 {
			stages++
		}
		if n := testing.AllocsPerRun(5, func() { send(t, a, tx) }); n != 0 {
			t.Errorf("%v allocations for a batch", n)
		}
	}
	if stages != maxStages {
		t.Errorf("%d flows of %d have stages, expected %d", stages, len(flows), maxStages)
	}
}

func TestSpliceLeavesNothingOpen(t *testing.T) {
	a, b, f := spliced(t, "127.0.0.1")
	send(t, a, batch(f, 15, 4112, 1))
	pipe := a.out.splicer.pipe
	end := a.flows.find(&f.Flow).end
	_ = a.Close()
	for _, fd := range pipe {
		var s unix.Stat_t
		if err := unix.Fstat(fd, &s); err == nil && s.Mode&unix.S_IFMT == unix.S_IFIFO {
			t.Errorf("the pipe's end %d is open", fd)
		}
	}
	if end.stage.mem != nil {
		t.Error("the stage is mapped")
	}
	var rx link.Rx
	if receive(t, b, &rx); !bytes.Equal(rx.Data, bytes.Join(batch(f, 15, 4112, 1).Pieces, nil)) {
		t.Error("the batch has changed with the end of the stage")
	}
}
