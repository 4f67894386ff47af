package recorder

import (
	"time"

	"softrdma/internal/psn"
	"softrdma/internal/wire/ib"
)

// A run is a record of packets, in a cache line.
type run struct {
	time   time.Duration
	bytes  uint64
	reth   ib.RETH // or address and key of an atomic, or key and source of a datagram
	last   uint32  // µs after time
	qpn    uint32
	dest   uint32
	psn    psn.PSN
	count  uint32
	msn    psn.PSN
	opcode ib.Opcode
	kind   Kind
	aeth   ib.Syndrome
	_      [5]byte
}

// runs is a ring of runs. Another process may read it (Memory).
type runs struct {
	kept [Size]run
	n    uint64 // made
}

const (
	// pause is how long after its last packet a run ends.
	pause = 100 * time.Millisecond

	// longest is how long a run is at most: what its numbers hold.
	longest = time.Hour
)

// over reports whether a packet at a time does not belong to the run any more.
func (x *run) over(now time.Duration) bool {
	since := now - x.time
	return since-time.Duration(x.last)*time.Microsecond > pause || since > longest || x.count > 1<<31
}

// headers are the extended headers that a record keeps.
const headers = ib.HasRETH | ib.HasDETH | ib.HasAETH

// kept returns what a run keeps of a packet besides BTH and AETH.
func kept(p *ib.Packet) ib.RETH {
	i := p.Opcode.Info()
	switch {
	case i == nil:
	case i.Headers&ib.HasRETH != 0:
		return p.RETH
	case i.Headers&ib.HasAtomicETH != 0:
		return ib.RETH{Addr: p.AtomicETH.Addr, RKey: p.AtomicETH.RKey}
	case i.Headers&ib.HasDETH != 0:
		return ib.RETH{RKey: p.DETH.QKey, Length: p.DETH.SrcQPN}
	}
	return ib.RETH{}
}

// header returns what a run has of its first packet's headers, and whether that is all.
func (x *run) header() (p *ib.Packet, whole bool) {
	p = &ib.Packet{}
	p.Opcode, p.DestQPN, p.PSN = x.opcode, x.dest, x.psn
	i := x.opcode.Info()
	if i == nil {
		return p, false
	}
	if i.Headers&ib.HasAETH != 0 {
		p.AETH = ib.AETH{Syndrome: x.aeth, MSN: x.msn}
	}
	switch {
	case i.Headers&ib.HasRETH != 0:
		p.RETH = x.reth
	case i.Headers&ib.HasAtomicETH != 0:
		p.AtomicETH.Addr, p.AtomicETH.RKey = x.reth.Addr, x.reth.RKey
	case i.Headers&ib.HasDETH != 0:
		p.DETH.QKey, p.DETH.SrcQPN = x.reth.RKey, x.reth.Length
	}
	return p, i.Headers&^headers == 0
}

// records returns the runs as records, the oldest first, and how many older ones there were. It trusts
// nothing that it reads but its own size.
func (r *runs) records() (all []Record, lost uint64) {
	for i := r.n - min(r.n, Size); i < r.n; i++ {
		x := &r.kept[i%Size]
		if x.kind > Received || x.count == 0 {
			continue // never complete
		}
		p, whole := x.header()
		all = append(all, Record{
			Time: x.time, Last: x.time + time.Duration(x.last)*time.Microsecond, Kind: x.kind, QPN: x.qpn,
			Count: uint64(x.count), Bytes: x.bytes, Header: p, Whole: whole,
		})
	}
	return all, r.n - min(r.n, Size)
}
