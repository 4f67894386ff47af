package samehost

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
)

// A peer that answers too late for the first connection is asked again in the background.
func TestPeerThatAnswersLateIsAskedAgain(t *testing.T) {
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: netip.MustParseAddrPort("10.0.0.1:4791"), Stack: 1})
	bells, err := hostmem.NewBells()
	if err != nil {
		t.Fatal(err)
	}
	defer bells.Close()
	busy := make(chan struct{})
	var attached sync.WaitGroup
	attached.Add(1)
	at := netip.MustParseAddrPort("10.0.0.2:4791")
	b, err := Open(Config{
		Dir: dir, Kind: "RoCE v2", Local: at, Lanes: 1, Stack: 2,
		Bell: func(_ int, owner any) (*hostmem.Bell, error) {
			<-busy
			return bells.Add(owner)
		},
		Attach: func(*hostmem.Channel) { attached.Done() }, Detach: func(*hostmem.Channel) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := a.Reach(at, 0, 50*time.Millisecond); !unanswered(err) {
		t.Errorf("a busy peer was reached: %v", err)
	}
	close(busy)
	if err := a.until(func(attached, _ int) bool { return attached == 1 }); err != nil {
		t.Fatal(err)
	}
	attached.Wait()
	if err := a.Reach(at, 0, timeLimit); err != nil {
		t.Error(err)
	}
	if d := a.Why(at, 0); d.Reason != reason.None {
		t.Errorf("the peer counts as unreachable: %v", d)
	}
}
