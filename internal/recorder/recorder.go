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

// A Recorder keeps the last records of a lane. The zero value is ready, and has no memory before the
// first record. Its owner guards it.
type Recorder struct {
	runs  *runs   // nil before the first
	n     uint64  // runs made
	last  *run    // the latest, nil if there is none
	next  psn.PSN // that would continue it
	other ring[note]
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
		r.runs = new(runs)
	}
	r.last = &r.runs.kept[r.n%Size]
	r.n++
	r.runs.n = r.n
	return r.last
}

// Add records something other than packets.
func (r *Recorder) Add(x Record) {
	x.Last, x.Count = x.Time, 1
	*r.other.place(ringSize) = noteOf(&x)
}

// Records returns the records, the oldest first, and how many older ones there were.
func (r *Recorder) Records() (all []Record, lost uint64) {
	all, lost = records(&r.other)
	if r.runs == nil {
		return all, lost
	}
	of, n := r.runs.records()
	return Merge(all, of), lost + n
}

// Made returns how many records were made.
func (r *Recorder) Made() uint64 { return r.other.made() + r.n }

// Since returns the records after a cursor that are not of packets, the oldest first, and how many of
// them are lost, and moves the cursor.
func (r *Recorder) Since(c *Cursor) (all []Record, lost uint64) { return since(&r.other, c) }

// Merge joins records of several recorders in the order of their time.
func Merge(all ...[]Record) []Record {
	joined := slices.Concat(all...)
	slices.SortStableFunc(joined, func(a, b Record) int { return cmp.Compare(a.Time, b.Time) })
	return joined
}
