package verbs_test

import (
	"reflect"
	"testing"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/verbs"
)

// Programs of a daemon see the port of a fabric like the daemon, and reach peers by LID.
func TestFabricPortOfADaemon(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	var own [2]*verbs.Device
	for i, name := range f.Adapters {
		d, err := verbs.Open("ib:"+name, verbs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		own[i] = d
		fabrictest.WaitFor(t, "an active port", func() bool { p := d.QueryPort(); return p.Active && p.LID != 0 })
	}
	t.Cleanup(func() { own[1].Close() })
	served := serve(t, own[0])
	d := served.open(t)
	want := own[0].QueryPort()
	want.SpeedMbps = 100_000 // programs of a daemon get the nominal rate of EDR
	if got := d.QueryPort(); !reflect.DeepEqual(got, want) {
		t.Errorf("port %+v, expected %+v", got, want)
	}
	if got, want := d.GIDs(), own[0].GIDs(); len(got) != len(want) || got[0].GID != want[0].GID || got[0].Type != want[0].Type || d.GID() != own[0].GID() {
		t.Errorf("GIDs %v, expected %v", got, want)
	}
	a, b := daemonSide(t, d, false), on(t, own[1], make([]byte, 4096))
	a.peer, b.peer = b, a
	ends{}.join(t, a, b)
	a.post(t, a.write(0, 64))
	a.ok(t, verbs.WCWrite)

	ud := [2]*verbs.QP{}
	for i, s := range []*side{a, b} {
		q, err := s.pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: s.cq})
		if err != nil {
			t.Fatal(err)
		}
		ud[i], s.qp = q, q
		s.readyUD(t, 5)
	}
	for _, global := range []bool{false, true} {
		to := vector(own[1])
		if !global {
			to.DGID = verbs.GID{}
		}
		ah, err := a.pd.CreateAH(to)
		if err != nil {
			t.Fatal(err)
		}
		b.recv(t, 1, 0, 100)
		a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, AH: ah, RemoteQPN: ud[1].Number(), RemoteQKey: 5})
		a.ok(t, verbs.WCSend)
		there := b.ok(t, verbs.WCRecv)
		if there.SLID != d.QueryPort().LID || (there.Flags&verbs.WCGRH != 0) != global {
			t.Errorf("global %v: %+v", global, there)
		}
		back, err := b.pd.CreateAH(verbs.AddressVector{DLID: there.SLID})
		if err != nil {
			t.Fatal(err)
		}
		a.recv(t, 2, 64, 100)
		b.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{b.mr.SGE(0, 8)}, AH: back, RemoteQPN: there.SrcQPN, RemoteQKey: 5})
		b.ok(t, verbs.WCSend)
		if wc := a.ok(t, verbs.WCRecv); wc.SLID != own[1].QueryPort().LID || wc.SrcQPN != ud[1].Number() {
			t.Errorf("back: %+v", wc)
		}
	}
}
