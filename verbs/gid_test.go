package verbs_test

import (
	"errors"
	"strings"
	"testing"

	"softrdma/verbs"
)

// Programs use index 0, 1 or 3, depending on the adapter they were written for. All are the
// device's address.
func TestEveryGIDIndexIsTheDevice(t *testing.T) {
	needUDP(t)
	a, b := newSide(t, addrA, 8192, verbs.UD), newSide(t, addrB, 8192, verbs.UD)
	a.readyUD(t, 0x11)
	b.readyUD(t, 0x22)
	gids := a.dev.GIDs()
	if n := a.dev.QueryPort().GIDs; len(gids) != 4 || n != 4 {
		t.Fatalf("expected 4 GIDs, found %v, port %d", gids, n)
	}
	to := vector(b.dev)
	for i, g := range gids {
		if g != (verbs.GIDEntry{Index: i, GID: a.dev.GID(), Type: "RoCE v2", Interface: gids[0].Interface}) {
			t.Errorf("index %d: %+v", i, g)
		}
		to.SGIDIndex = uint8(i)
		ah, err := a.pd.CreateAH(to)
		if err != nil {
			t.Fatal(err)
		}
		b.recv(t, 1, 0, grh+100)
		a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 10)}, AH: ah, RemoteQPN: b.qp.Number(), RemoteQKey: 0x22})
		a.ok(t, verbs.WCSend)
		if wc := b.ok(t, verbs.WCRecv); wc.SrcQPN != a.qp.Number() {
			t.Errorf("index %d: %+v", i, wc)
		}
	}
	to.SGIDIndex = 4
	_, err := a.pd.CreateAH(to)
	if r := verbs.ReasonError(nil); !errors.As(err, &r) || r.Reason() != "GID_INDEX" || !strings.Contains(err.Error(), "0 to 3, found index 4") {
		t.Errorf("index 4: %v", err)
	}
}
