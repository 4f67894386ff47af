package subnet

import (
	"testing"
	"time"

	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// An adapter without a program answers requests of connection managers, and nothing else.
func TestAdapterWithoutAProgramRefusesConnections(t *testing.T) {
	r := newManaged(t, "star:2")
	asker := &client{}
	r.Attach(r.ends[0], asker)
	r.Attach(r.ends[1], nil)
	var req, dreq, sidr, rtu, bad [mad.Len]byte
	put := func(d *[mad.Len]byte, a mad.AttributeID, m interface{ Put(*[mad.Len]byte) }) {
		h := mad.NewHeader(a, 0x77)
		h.Put(d)
		m.Put(d)
	}
	put(&req, mad.AttrREQ, &mad.REQ{LocalID: 11, Service: 5})
	put(&dreq, mad.AttrDREQ, &mad.DREQ{LocalID: 12, RemoteID: 13})
	put(&sidr, mad.AttrSIDRReq, &mad.SIDRReq{RequestID: 14, Service: 6})
	put(&rtu, mad.AttrRTU, &mad.RTU{LocalID: 15})
	bad = req
	bad[2]++ // class version
	for _, c := range []struct {
		name   string
		in     [mad.Len]byte
		answer mad.AttributeID // 0 if there is none
		check  func(d *[mad.Len]byte) bool
	}{
		{"REQ", req, mad.AttrREJ, func(d *[mad.Len]byte) bool {
			var m mad.REJ
			m.Parse(d)
			return m == mad.REJ{RemoteID: 11, Of: mad.OfREQ, Reason: mad.RejectInvalidServiceID}
		}},
		{"DREQ", dreq, mad.AttrDREP, func(d *[mad.Len]byte) bool {
			var m mad.DREP
			m.Parse(d)
			return m == mad.DREP{LocalID: 13, RemoteID: 12}
		}},
		{"SIDR_REQ", sidr, mad.AttrSIDRRep, func(d *[mad.Len]byte) bool {
			var m mad.SIDRRep
			m.Parse(d)
			return m == mad.SIDRRep{RequestID: 14, Status: mad.SIDRUnsupported, Service: 6}
		}},
		{"RTU", rtu, 0, nil},
		{"REQ of another version", bad, 0, nil},
	} {
		asker.answers = nil
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: smp.DefaultPKey, DestQPN: mad.GSIQPN}, Payload: c.in[:]}
		p.DETH = ib.DETH{SrcQPN: mad.GSIQPN, QKey: mad.GSIQKey}
		h := ib.LRH{Next: ib.LocalBTH, DLID: ib.LID(r.lid(1)), SLID: ib.LID(r.lid(0))}
		r.Send(r.now, topology.End{Node: r.ends[0], Port: 1}, ib.AppendNative(r.Pool().Buffer(0), h, nil, &p))
		r.Run(r.now + time.Millisecond)
		switch n := len(asker.answers); {
		case c.answer == 0 && n == 0:
		case c.answer == 0 || n != 1:
			t.Errorf("%s: %d answers", c.name, n)
		default:
			var h mad.Header
			h.Parse(&asker.answers[0])
			if h != mad.NewHeader(c.answer, 0x77) || !c.check(&asker.answers[0]) {
				t.Errorf("%s: answer %+v, %x", c.name, h, asker.answers[0])
			}
		}
	}
}
