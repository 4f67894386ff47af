package recorder

import (
	"net/netip"
	"sync/atomic"
	"time"
	"unsafe"

	"softrdma/internal/reason"
	"softrdma/internal/trace"
)

// A Memory is what the recorder of a device of one lane keeps, where another process sees it: it can be
// read when the device's process has ended. It has no pointers. Pages that nothing was written to take no
// memory. Runs and pairs are in cache lines.
type Memory struct {
	left  uint32 // the device's process does not need it any more
	_     uint32
	zero  int64  // wall time at which the device's clock was 0, in nanoseconds since 1970
	saved uint64 // records made when they were last written to files
	_     [5]uint64

	runs      runs
	other     notes
	refusals  notes
	unknown   notes
	pairsMade uint64
	_         [3]uint64
	pairs     [pairsSize]pair
}

type notes struct {
	n    uint64
	kept [ringSize]note
}

func (x *notes) ring() ring[note] { return ring[note]{&x.n, x.kept[:]} }

// A Slot is the memory of a server and a program that has a share of an address of the server's.
type Slot struct {
	Memory
	Page trace.Page
}

// SlotSize is the size of a Slot.
const SlotSize = int(unsafe.Sizeof(Slot{}))

// SlotIn returns the Slot at the start of memory that both have mapped, on a page's boundary.
func SlotIn(memory []byte) *Slot { return (*Slot)(unsafe.Pointer(&memory[:SlotSize][0])) }

// Use keeps what the recorders of a device record in m from now on, before the first record. At zero the
// device's clock was 0.
func (m *Memory) Use(zero time.Time, r *Recorder, refusals *Refusals, pairs *Pairs) {
	m.zero = zero.UnixNano()
	r.runs, r.other = &m.runs, m.other.ring()
	refusals.ring, refusals.unknown = m.refusals.ring(), m.unknown.ring()
	pairs.ring = m.sharedPairs()
}

func (m *Memory) sharedPairs() ring[pair] { return ring[pair]{&m.pairsMade, m.pairs[:]} }

// Pairs returns what m has about queue pairs, for the process of the connection manager.
func (m *Memory) Pairs() *Pairs { return &Pairs{ring: m.sharedPairs()} }

// Leave notes that the device's process does not need m any more: its end is no failure.
func (m *Memory) Leave() { atomic.StoreUint32(&m.left, 1) }

// Left reports whether Leave was called.
func (m *Memory) Left() bool { return atomic.LoadUint32(&m.left) != 0 }

// Saved notes that the first n records that were made are in files.
func (m *Memory) Saved(n uint64) { atomic.StoreUint64(&m.saved, n) }

// A Snapshot is what a flight recorder has at one time.
type Snapshot struct {
	Records []Record              // the oldest first
	Lost    uint64                // older ones
	Made    uint64                // records ever made
	Zero    time.Time             // at which the clock of the records was 0
	Peers   map[uint32]netip.Addr // by queue pair
}

// Tells reports whether there is something that explains an end: packets or failures of queue pairs.
func (s *Snapshot) Tells() bool {
	for i := range s.Records {
		switch x := &s.Records[i]; x.Kind {
		case Sent, Received, Completed:
			return true
		case State:
			if x.Detail.Reason != reason.None {
				return true
			}
		case Refused:
			if x.QPN > 1 && x.Detail.Reason != reason.PacketQPN {
				return true
			}
		}
	}
	return false
}

// Latest returns the queue pair of the last packet, or else that of the last record.
func (s *Snapshot) Latest() (qpn uint32) {
	for i := range s.Records {
		if x := &s.Records[len(s.Records)-1-i]; x.Kind <= Received {
			return x.QPN
		} else if qpn == 0 {
			qpn = x.QPN
		}
	}
	return qpn
}

// latest is after every time of a clock.
const latest = 1 << 60

// Unsaved returns what a Memory has whose process has ended, and whether that is not in files yet. It
// copies the memory once. Whatever another process may have written there, the snapshot is well-formed;
// what cannot be is left out.
func (m *Memory) Unsaved() (*Snapshot, bool) {
	c := new(Memory)
	copy(bytesOf(c), bytesOf(m))
	all, lost := c.runs.records()
	made := c.runs.n
	for _, x := range []*notes{&c.other, &c.refusals, &c.unknown} {
		r := x.ring()
		of, n := records(&r)
		all, lost, made = append(all, of...), lost+n, made+x.n
	}
	s := &Snapshot{Lost: lost, Made: made, Zero: time.Unix(0, c.zero), Peers: c.Pairs().Peers()}
	for _, x := range all {
		if x.plausible() {
			s.Records = append(s.Records, x)
		}
	}
	s.Records = Merge(s.Records)
	return s, made != c.saved
}

func bytesOf(m *Memory) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Sizeof(*m)) }

// largest bounds the payload of a packet.
const largest = 1 << 15

// plausible reports whether a device may have made the record. What a recorder keeps is in its ranges
// afterwards.
func (r *Record) plausible() bool {
	if r.Time < 0 || r.Last < r.Time || r.Last > latest || r.Count == 0 || r.QPN >= 1<<24 {
		return false
	}
	if p := r.Header; p != nil {
		return p.Opcode.Info() != nil && r.Bytes/r.Count <= largest && p.DestQPN < 1<<24 && p.PSN < 1<<24 && p.AETH.MSN < 1<<24
	}
	return (r.Kind == State || r.Kind == Completed || r.Kind == Refused) && known(r.Detail.Reason) && known(r.Said.Reason)
}

func known(r reason.Reason) bool { return r == reason.None || r.Known() }
