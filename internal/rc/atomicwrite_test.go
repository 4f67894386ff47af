package rc

import (
	"bytes"
	"encoding/binary"
	"testing"

	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// postWord posts an ATOMIC WRITE.
func (n *node) postWord(peer *node, off int, word uint64) {
	n.post(wqe{op: queue.AtomicWrite, flags: queue.Signaled, remote: peer.target(off), word: word})
}

func TestAtomicWritePlacesOneWord(t *testing.T) {
	const word = 0x1122334455667788
	for name, lose := range map[string]func(w *pair){
		"nothing lost":       func(*pair) {},
		"request lost":       func(w *pair) { w.fate = drop(1, 0) },
		"response lost":      func(w *pair) { w.fate = drop(0, 0) },
		"request lost twice": func(w *pair) { w.fate = drop(1, 0, 1) },
	} {
		for _, make := range []func() *pair{func() *pair { return newPair(t, nil) }, func() *pair { return newSelective(t, nil) }} {
			w := make()
			a, b := w.n[0], w.n[1]
			lose(w)
			a.postWord(b, 16, word)
			w.settle()
			w.wantStatuses(&a.send, queue.Success)
			if got := binary.NativeEndian.Uint64(b.mem[16:]); got != word || !bytes.Equal(b.mem[:16], zeroes(16)) || !bytes.Equal(b.mem[24:40], zeroes(16)) {
				t.Errorf("%s: found %#x", name, got)
			}
			if p := w.sent[1][0]; p.Opcode != ib.RCAtomicWrite || p.RETH.Length != 8 {
				t.Errorf("%s: sent %v", name, p.Opcode)
			}
			if p := w.sent[0][len(w.sent[0])-1]; p.Opcode != ib.RCReadResponseOnly || len(p.Payload) != 0 {
				t.Errorf("%s: answered with %v of %d bytes", name, p.Opcode, len(p.Payload))
			}
		}
	}
}

func zeroes(n int) []byte { return make([]byte, n) }

// A duplicate is answered but not executed, because the word may have been changed since.
func TestAtomicWriteDuplicateIsNotCarriedOut(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	w.fate = drop(0, 0)
	a.postWord(b, 0, 1)
	for len(w.sent[1]) == 0 {
		w.step()
	}
	binary.NativeEndian.PutUint64(b.mem, 2) // after the first one was executed
	w.settle()
	w.wantStatuses(&a.send, queue.Success)
	if got := binary.NativeEndian.Uint64(b.mem); got != 2 {
		t.Errorf("found %d", got)
	}
}

func TestAtomicWriteRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		off  int
		want reason.Reason
	}{
		"not aligned":   {4, reason.AtomicAlignment},
		"out of bounds": {testMem, reason.KeyBounds},
	} {
		w := newPair(t, nil)
		a, b := w.n[0], w.n[1]
		a.postWord(b, c.off, 1)
		w.settle()
		if b.count(c.want) != 1 || len(a.send.list) != 1 {
			t.Errorf("%s: refused %v, %d completions", name, b.refused, len(a.send.list))
		}
	}
}
