package verbs

import (
	"testing"
	"time"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/link"
	"softrdma/internal/management/sm"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// TestFabricCountsPacketsWithWrongKeys sends packets whose P_Key or Q_Key the device refuses.
// The agent of its port counts them and sends traps 257 and 258 (IBTA 14.2.5.1).
func TestFabricCountsPacketsWithWrongKeys(t *testing.T) {
	x := fabrictest.Start(t, "star:2")
	from := x.Attach(0)
	d, err := Open("ib:"+x.Adapters[1], Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	fabrictest.WaitFor(t, "an active port", func() bool { a := d.QueryPort(); return a.Active && a.LID != 0 })
	const qkey, other = 7, 0x1234
	to := datagramEnd(t, d, qkey)
	if err := to.PostRecv(RecvWR{SGL: []SGE{to.mr.SGE(0, 40+mad.Len)}}); err != nil {
		t.Fatal(err)
	}
	send := func(qpn uint32, pkey uint16, key uint32) {
		t.Helper()
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: pkey, DestQPN: qpn}, Payload: make([]byte, mad.Len)}
		p.DETH = ib.DETH{QKey: key, SrcQPN: 9}
		b := ib.AppendNative(nil, ib.LRH{Next: ib.LocalBTH, DLID: ib.LID(d.QueryPort().LID), SLID: ib.LID(from.Info().PortInfo.LID)}, nil, &p)
		b = b[:len(b)-ib.VCRCLen]
		if err := from.Link().Send(&link.Tx{Pieces: [][]byte{b}, Bytes: len(b), Size: len(b)}); err != nil {
			t.Fatal(err)
		}
	}
	violations := func() (pkeys, qkeys uint16) {
		x.Do(func(_ time.Duration, s *subnet.Subnet, _ *sm.Manager) {
			for i := 0; ; i++ {
				if p := s.Agent(i).PortInfo(1); p.LID == d.QueryPort().LID {
					pkeys, qkeys = p.PKeyViolations, p.QKeyViolations
					return
				}
			}
		})
		return pkeys, qkeys
	}
	send(to.Number(), other, qkey)
	fabrictest.WaitFor(t, "a P_Key violation", func() bool { p, _ := violations(); return p == 1 })
	send(to.Number(), smp.DefaultPKey, other)
	fabrictest.WaitFor(t, "a Q_Key violation", func() bool { _, q := violations(); return q == 1 })
	send(mad.GSIQPN, smp.DefaultPKey, other)
	fabrictest.WaitFor(t, "a Q_Key violation of queue pair 1", func() bool { _, q := violations(); return q == 2 })
	send(to.Number(), smp.DefaultPKey, qkey)
	to.wait(t)
	if p, q := violations(); p != 1 || q != 2 {
		t.Errorf("%d and %d violations after a good packet, expected 1 and 2", p, q)
	}
}
