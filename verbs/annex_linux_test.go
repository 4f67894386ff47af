package verbs_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"softrdma/verbs"
)

func flush(b *side, f verbs.Flush) verbs.SendWR {
	return verbs.SendWR{Op: verbs.OpFlush, Flags: verbs.Signaled, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), Flush: f}
}

func TestFlushedWriteIsSeenOnEveryPath(t *testing.T) {
	onEveryPath(t, func(t *testing.T, a, b *side) {
		for i := range 50 {
			n := []int{8, 4000, len(b.buf)}[i%3]
			fill(a.buf[:n], uint64(i))
			w := a.write(0, n)
			w.Flags = 0
			f := verbs.Flush{Placement: verbs.GlobalVisibility, Length: uint32(n), Region: i%2 == 0}
			a.post(t, w, flush(b, f))
			a.ok(t, verbs.WCFlush)
			if string(b.buf[:n]) != string(a.buf[:n]) {
				t.Fatalf("after FLUSH %d the %d bytes of the WRITE before it are not there", i, n)
			}
		}
	})
}

// Each half of the word contains the number of the ATOMIC WRITE, so a torn word is visible.
func TestAtomicWriteIsNeverTornOnEveryPath(t *testing.T) {
	onEveryPath(t, func(t *testing.T, a, b *side) {
		var torn, ended atomic.Uint64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ended.Load() == 0 {
				if v := atomic.LoadUint64(word(b.buf)); v>>32 != v&0xffffffff {
					torn.Store(v)
				}
			}
		}()
		value := make([]byte, 8)
		for i := range uint64(500) {
			*word(value) = i<<32 | i
			a.post(t, verbs.SendWR{Op: verbs.OpAtomicWrite, Flags: verbs.Signaled, Inline: value, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.ok(t, verbs.WCAtomicWrite)
			if got := atomic.LoadUint64(word(b.buf)); got != i<<32|i {
				t.Errorf("ATOMIC WRITE %d: found %#x", i, got)
				break
			}
		}
		ended.Store(1)
		<-done
		if v := torn.Load(); v != 0 {
			t.Errorf("found half of a word: %#x", v)
		}
	})
}

func TestPostRefusesUndefinedFieldsOfAnnexA19(t *testing.T) {
	a, b := pair(t, 64, verbs.RC)
	at, key := b.mr.Addr(), b.mr.RKey()
	for name, w := range map[string]verbs.SendWR{
		"seven bytes":            {Op: verbs.OpAtomicWrite, Inline: make([]byte, 7), RemoteAddr: at, RKey: key},
		"no bytes":               {Op: verbs.OpAtomicWrite, RemoteAddr: at, RKey: key},
		"an address that is odd": {Op: verbs.OpAtomicWrite, Inline: make([]byte, 8), RemoteAddr: at + 4, RKey: key},
		"a list":                 {Op: verbs.OpAtomicWrite, Inline: make([]byte, 8), SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: at, RKey: key},
		"a list to flush":        {Op: verbs.OpFlush, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: at, RKey: key},
		"inline data to flush":   {Op: verbs.OpFlush, Inline: make([]byte, 8), RemoteAddr: at, RKey: key},
		"an unknown placement":   {Op: verbs.OpFlush, RemoteAddr: at, RKey: key, Flush: verbs.Flush{Placement: 4}},
		"too long a range":       {Op: verbs.OpFlush, RemoteAddr: at, RKey: key, Flush: verbs.Flush{Length: 1<<31 + 1}},
	} {
		var refused *verbs.PostError
		if err := a.qp.PostSend(w); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.post(t, flush(b, verbs.Flush{Placement: verbs.Persistence}))
	if wc := a.one(t); wc.Status != verbs.RemInvReqErr {
		t.Errorf("FLUSH that the peer's queue pair does not allow: %v", wc.Status)
	}
}

// The device cannot promise persistence, so it refuses memory for it.
func TestRegisterForPersistenceIsUnsupported(t *testing.T) {
	a := newSide(t, addrA, 64, verbs.RC)
	if _, err := a.pd.RegisterMemory(make([]byte, 64), verbs.LocalWrite|verbs.FlushPersistent); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("found %v", err)
	}
}
