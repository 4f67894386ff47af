package object

import "testing"

// Objects of two shares keep what they refer to and never have each other's numbers.
func TestRenumberedObjectsStayConnected(t *testing.T) {
	share := func(n uint32) (l List) {
		l = List{
			PDs: []PD{{Number: 1}}, CQs: []CQ{{Number: 2}}, SRQs: []SRQ{{Number: 3, PD: 1}},
			QPs: []QP{{Number: 17, PD: 1, SendCQ: 2, RecvCQ: 2, SRQ: 3}, {Number: 18, PD: 1, SendCQ: 2, RecvCQ: 2}},
			MRs: []Region{{Number: 0xabcdef, PD: 1, Key: 0xabcdef12}},
		}
		l.Renumber(n)
		return l
	}
	a, b := share(1), share(2)
	for _, l := range []List{a, b} {
		q := l.QPs[0]
		if q.PD != l.PDs[0].Number || q.SendCQ != l.CQs[0].Number || q.RecvCQ != q.SendCQ || q.SRQ != l.SRQs[0].Number ||
			l.SRQs[0].PD != q.PD || l.MRs[0].PD != q.PD || l.QPs[1].SRQ != 0 || q.Number != 17 || l.MRs[0].Key != 0xabcdef12 {
			t.Errorf("%+v", l)
		}
	}
	if a.PDs[0].Number == b.PDs[0].Number || a.CQs[0].Number == b.CQs[0].Number || a.SRQs[0].Number == b.SRQs[0].Number || a.MRs[0].Number == b.MRs[0].Number {
		t.Errorf("the same numbers in %+v and %+v", a, b)
	}
	a.Add(b)
	if len(a.QPs) != 4 || len(a.MRs) != 2 || len(a.PDs) != 2 || len(a.CQs) != 2 || len(a.SRQs) != 2 {
		t.Errorf("%+v", a)
	}
}
