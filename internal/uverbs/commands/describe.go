//go:build linux

package commands

import (
	"softrdma/internal/adapter"
	"softrdma/internal/rdmanl"
)

// numberShift makes the numbers of a device's objects out of those of their contexts and their
// handles in these, which stay below maxRegions.
const numberShift = 20

// Describe adds the context and its objects. No call of the file may be executed meanwhile.
func (x *context) Describe(to *rdmanl.Objects) {
	owner := rdmanl.Owner{PID: uint32(x.file.PID)}
	to.Contexts = append(to.Contexts, rdmanl.Context{Owner: owner, Number: x.number})
	v := newSurvey(x)
	for h, o := range x.objects {
		number := x.number<<numberShift | h
		switch o := o.(type) {
		case *pd:
			to.PDs = append(to.PDs, rdmanl.PD{Owner: owner, Number: number, Context: x.number, Uses: v.inPD[o.a]})
		case *cq:
			to.CQs = append(to.CQs, rdmanl.CQ{
				Owner: owner, Number: number, Context: x.number, Entries: uint32(o.depth), Uses: v.onCQ[o],
			})
		case *mr:
			to.MRs = append(to.MRs, rdmanl.MR{
				Owner: owner, Number: number, PD: v.pds[o.pd], LKey: o.r.Key, RKey: o.r.Key, Length: o.r.Len(),
			})
		case *srq:
			to.SRQs = append(to.SRQs, rdmanl.SRQ{Owner: owner, Number: number, PD: v.pds[o.pd.a], QPs: v.ofSRQ[o.a]})
		case *queuePair:
			a := o.a.Query()
			to.QPs = append(to.QPs, rdmanl.QP{
				Owner: owner, QPN: o.a.QPN, PD: v.pds[o.pd.a], Type: uint8(o.a.Type), State: uint8(a.State),
				RemoteQPN: a.DestQPN, RecvPSN: uint32(a.RQPSN), SendPSN: uint32(a.SQPSN),
			})
		}
	}
}

// A survey says which objects of a context use which others.
type survey struct {
	pds   map[*adapter.PD]uint32 // numbers
	inPD  map[*adapter.PD]uint64
	onCQ  map[*cq]uint64
	ofSRQ map[*adapter.SRQ][]uint32 // numbers of queue pairs
}

func newSurvey(x *context) *survey {
	v := &survey{
		pds: make(map[*adapter.PD]uint32), inPD: make(map[*adapter.PD]uint64), onCQ: make(map[*cq]uint64),
		ofSRQ: make(map[*adapter.SRQ][]uint32),
	}
	for h, o := range x.objects {
		switch o := o.(type) {
		case *pd:
			v.pds[o.a] = x.number<<numberShift | h
		case *mr:
			v.inPD[o.pd]++
		case *mw:
			v.inPD[o.pd]++
		case *ah:
			v.inPD[o.pd]++
		case *srq:
			v.inPD[o.pd.a]++
		case *queuePair:
			v.inPD[o.pd.a]++
			v.onCQ[o.cqs[0]]++
			v.onCQ[o.cqs[1]]++
			if s := o.a.SRQ(); s != nil {
				v.ofSRQ[s] = append(v.ofSRQ[s], o.a.QPN)
			}
		}
	}
	return v
}
