package verbs_test

import (
	"testing"
	"time"

	"softrdma/internal/testenv"
	"softrdma/verbs"
)

// A peer maps allocated memory only while it is registered.
func TestSameHostPeerUnmapsFreedMemory(t *testing.T) {
	const size = 1 << 20
	a, b := sameHostPair(t, verbs.SameHostRequire, size, false)
	before := testenv.Mappings(t)
	for round := range 4 {
		m, err := verbs.AllocMemory(size, verbs.AllocConfig{})
		if err != nil {
			t.Fatal(err)
		}
		mr, err := a.pd.RegisterMemory(m.Bytes(), allRights)
		if err != nil {
			t.Fatal(err)
		}
		fill(m.Bytes(), uint64(round))
		for end := time.Now().Add(20 * time.Second); testenv.Mappings(t) < before+2; {
			if time.Now().After(end) {
				t.Fatalf("round %d: the peer never maps the memory", round)
			}
			a.post(t, verbs.SendWR{
				Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
			})
			a.ok(t, verbs.WCWrite)
		}
		if string(b.buf) != string(m.Bytes()) {
			t.Fatalf("round %d: other bytes arrived", round)
		}
		if err := mr.Deregister(); err != nil {
			t.Fatal(err)
		}
		if err := m.Free(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); testenv.Mappings(t) > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("round %d: freed memory stays mapped", round)
			}
		}
	}
}
