package recorder

import (
	"sync/atomic"
	"time"

	"softrdma/internal/reason"
)

// A ring keeps the last entries of a kind. The zero value is ready, and grows up to a limit.
type ring[T any] struct {
	n    *uint64 // entries made; nil before the first
	kept []T     // of the limit's size from the beginning in memory that another process reads
}

// place returns the place of the next entry, which may hold an old one.
func (r *ring[T]) place(limit int) *T {
	if r.n == nil {
		r.n = new(uint64)
	}
	i := int(*r.n % uint64(limit))
	if i == len(r.kept) {
		var none T
		r.kept = append(r.kept, none)
	}
	atomic.AddUint64(r.n, 1)
	return &r.kept[i]
}

// made returns how many entries were made.
func (r *ring[T]) made() uint64 {
	if r.n == nil {
		return 0
	}
	return atomic.LoadUint64(r.n)
}

// latest returns the latest entry, nil if there is none.
func (r *ring[T]) latest() *T {
	if n := r.made(); n > 0 {
		return r.at(n - 1)
	}
	return nil
}

// at returns the entry that was made after i others. The ring still has it.
func (r *ring[T]) at(i uint64) *T { return &r.kept[i%uint64(len(r.kept))] }

// oldest returns how many entries are lost.
func (r *ring[T]) oldest(n uint64) uint64 { return n - min(n, uint64(len(r.kept))) }

const ringSize = 64

// A note is a record that is not of packets.
type note struct {
	time, last   time.Duration
	count, wrid  uint64
	detail, said reason.Detail
	qpn          uint32
	kind         Kind
	from, to     uint8
	status       uint8
}

func noteOf(x *Record) note {
	return note{
		time: x.Time, last: x.Last, count: x.Count, wrid: x.WRID, detail: x.Detail, said: x.Said,
		qpn: x.QPN, kind: x.Kind, from: x.From, to: x.To, status: x.Status,
	}
}

func (x *note) record() Record {
	return Record{
		Time: x.time, Last: x.last, Count: x.count, WRID: x.wrid, Detail: x.detail, Said: x.said,
		QPN: x.qpn, Kind: x.kind, From: x.from, To: x.to, Status: x.status,
	}
}

// records returns notes as records, the oldest first, and how many older ones there were.
func records(r *ring[note]) (all []Record, lost uint64) {
	n := r.made()
	for i := r.oldest(n); i < n; i++ {
		all = append(all, r.at(i).record())
	}
	return all, r.oldest(n)
}

// A Cursor is how far a reader has read the records of a recorder that are not of packets. The zero value
// is before the first one.
type Cursor struct {
	n     uint64 // records
	count uint64 // of the last of them
}

// since returns the records after a cursor, the oldest first, and how many of them are lost, and moves
// the cursor. The first one continues the last that was read, if that has been continued since.
func since(r *ring[note], c *Cursor) (all []Record, lost uint64) {
	n := r.made()
	oldest := r.oldest(n)
	if c.n > oldest {
		if x := r.at(c.n - 1).record(); x.Count > c.count {
			x.Time, x.Count = x.Last, x.Count-c.count
			all = append(all, x)
		}
	}
	from := max(c.n, oldest)
	lost = from - c.n
	for i := from; i < n; i++ {
		all = append(all, r.at(i).record())
	}
	c.n = n
	if x := r.latest(); x != nil {
		c.count = x.count
	}
	return all, lost
}
