// Package recorder is the flight recorder of a device: the headers of the last packets, the last
// refusals, changes of state and failed completions, always kept in memory, so that a failure can be
// explained afterwards.
//
// A record is of a run of packets that differ in their PSN alone: a stream of WRITEs is one record,
// not a thousand. No payload is kept. The package does no I/O and reads no clock.
package recorder

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"softrdma/internal/psn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// Size is how many runs of packets a Recorder keeps: 16 KiB.
const Size = 256

// A Kind is what a record is of.
type Kind uint8

// The kinds.
const (
	Sent Kind = iota
	Received
	State     // From and To
	Completed // in error
	Refused
)

// A Record is a run of packets of a queue pair, or something else that happened to it.
type Record struct {
	Time  time.Duration // on the device's clock: of the first packet or refusal
	Last  time.Duration // of the last one
	Kind  Kind
	QPN   uint32 // of this end
	Count uint64 // packets, refusals
	Bytes uint64 // payload of all packets

	// Header is of the first packet: opcode, destination, PSN, RETH, DETH, AETH, and address and key of
	// atomics. Whole reports whether it has all that the packet had.
	Header *ib.Packet // nil if the record is not of packets
	Whole  bool

	From, To uint8         // states
	WRID     uint64        // Completed
	Status   uint8         // Completed: a queue.Status
	Detail   reason.Detail // Refused, Completed, State
	Said     reason.Detail // Completed: what the peer says
}

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

// A Recorder keeps the last records of a lane. The zero value is ready, and has no memory before the
// first record. Its owner guards it.
type Recorder struct {
	runs  *[Size]run // a ring
	n     uint64     // runs made
	last  *run       // the latest, nil if there is none
	next  psn.PSN    // that would continue it
	other ring
}

// Packet records packets of a queue pair with n bytes of payload in all, of which p is the first. They
// continue the last run if their opcode, PSN and acknowledge do, and if it has not paused.
func (r *Recorder) Packet(k Kind, now time.Duration, qpn uint32, p *ib.Packet, n, packets int) {
	packets = max(packets, 1)
	x := r.last
	if x == nil || r.next != p.PSN || x.opcode != p.Opcode || x.qpn != qpn || x.kind != k || x.aeth != p.AETH.Syndrome || x.over(now) {
		x = r.slot()
		x.time, x.last, x.bytes, x.reth, x.qpn, x.dest, x.psn, x.count = now, 0, 0, kept(p), qpn, p.DestQPN, p.PSN, 0
		x.msn, x.opcode, x.kind, x.aeth = p.AETH.MSN, p.Opcode, k, p.AETH.Syndrome
		r.next = p.PSN
	}
	r.extend(x, now, n, packets)
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

// Continue adds packets to the run that Packet has just made or continued.
func (r *Recorder) Continue(now time.Duration, n, packets int) {
	if x := r.last; x != nil {
		r.extend(x, now, n, packets)
	}
}

func (r *Recorder) extend(x *run, now time.Duration, n, packets int) {
	x.last = uint32((now - x.time) / time.Microsecond)
	x.bytes += uint64(n)
	x.count += uint32(packets)
	r.next = r.next.Add(packets)
}

// slot returns the place of the next run.
func (r *Recorder) slot() *run {
	if r.runs == nil {
		r.runs = new([Size]run)
	}
	r.last = &r.runs[r.n%Size]
	r.n++
	return r.last
}

// Add records something other than packets.
func (r *Recorder) Add(x Record) {
	x.Last, x.Count = x.Time, 1
	r.other.add(x)
}

// Records returns the records, the oldest first, and how many older ones there were.
func (r *Recorder) Records() (all []Record, lost uint64) {
	all, lost = r.other.records()
	if r.n > Size {
		lost += r.n - Size
	}
	for i := r.n - min(r.n, Size); i < r.n; i++ {
		x := &r.runs[i%Size]
		p, whole := x.header()
		all = append(all, Record{Time: x.time, Last: x.time + time.Duration(x.last)*time.Microsecond, Kind: x.kind, QPN: x.qpn,
			Count: uint64(x.count), Bytes: x.bytes, Header: p, Whole: whole})
	}
	return Merge(all), lost
}

// A ring keeps the last records that are not of packets.
type ring struct {
	kept []Record
	n    uint64
}

const ringSize = 64

func (r *ring) add(x Record) {
	if len(r.kept) < ringSize {
		r.kept = append(r.kept, x)
	} else {
		r.kept[r.n%ringSize] = x
	}
	r.n++
}

// latest returns the latest record, nil if there is none.
func (r *ring) latest() *Record {
	if r.n == 0 {
		return nil
	}
	return &r.kept[(r.n-1)%ringSize]
}

func (r *ring) records() (all []Record, lost uint64) {
	if r.n <= ringSize {
		return slices.Clone(r.kept), 0
	}
	at := r.n % ringSize
	return slices.Concat(r.kept[at:], r.kept[:at]), r.n - ringSize
}

// A Cursor is how far a reader has read the records of a recorder that are not of packets. The zero value
// is before the first one.
type Cursor struct {
	n     uint64 // records
	count uint64 // of the last of them
}

// since returns the records after a cursor, the oldest first, and how many of them are lost, and moves
// the cursor. The first one continues the last that was read, if that has been continued since.
func (r *ring) since(c *Cursor) (all []Record, lost uint64) {
	oldest := r.n - min(r.n, ringSize)
	if c.n > oldest {
		if x := r.kept[(c.n-1)%ringSize]; x.Count > c.count {
			x.Time, x.Count = x.Last, x.Count-c.count
			all = append(all, x)
		}
	}
	from := max(c.n, oldest)
	lost = from - c.n
	for i := from; i < r.n; i++ {
		all = append(all, r.kept[i%ringSize])
	}
	c.n = r.n
	if x := r.latest(); x != nil {
		c.count = x.Count
	}
	return all, lost
}

// Since returns the records after a cursor that are not of packets, the oldest first, and how many of
// them are lost, and moves the cursor.
func (r *Recorder) Since(c *Cursor) (all []Record, lost uint64) { return r.other.since(c) }

// Refusals keeps the last refusals of a device. Any goroutine may use it.
type Refusals struct {
	mu      sync.Mutex
	ring    ring
	unknown ring // of packets to queue pairs that do not exist: forged ones push out only each other
}

// Add records a refusal. It continues the last record if reason and queue pair are its.
func (r *Refusals) Add(now time.Duration, qpn uint32, d reason.Detail) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := &r.ring
	if d.Reason == reason.PacketQPN {
		to = &r.unknown
	}
	if x := to.latest(); x != nil && x.QPN == qpn && x.Detail.Reason == d.Reason {
		x.Last, x.Count = now, x.Count+1
		return
	}
	to.add(Record{Time: now, Last: now, QPN: qpn, Count: 1, Kind: Refused, Detail: d})
}

// Records returns the records, the oldest first, and how many older ones there were.
func (r *Refusals) Records() (all []Record, lost uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, lost = r.ring.records()
	unknown, n := r.unknown.records()
	return Merge(all, unknown), lost + n
}

// Since returns the refusals after two cursors, the oldest first, and how many of them are lost, and moves
// the cursors. A refusal that continues the last record that was read is returned with the count since then.
func (r *Refusals) Since(c *[2]Cursor) (all []Record, lost uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, lost = r.ring.since(&c[0])
	unknown, n := r.unknown.since(&c[1])
	return Merge(all, unknown), lost + n
}

// Merge joins records of several recorders in the order of their time.
func Merge(all ...[]Record) []Record {
	joined := slices.Concat(all...)
	slices.SortStableFunc(joined, func(a, b Record) int { return cmp.Compare(a.Time, b.Time) })
	return joined
}
