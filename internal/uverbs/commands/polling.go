//go:build linux

package commands

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// A doorbell is a message to the server and its answer, which costs two switches of
// threads for one short request. When a program rings for one queue pair again and
// again, and no other program on the device rings meanwhile, the server polls the ring
// of that queue pair, and a word in shared memory tells the program that it need not
// ring. Programs that answer each other ring in turn. A server that polled would take
// the processor from them.
const (
	PollAfter  = 16                     // doorbells in a row
	pollFor    = 100 * time.Microsecond // without a request
	pollYield  = 16                     // looks between two yields of the processor
	maxBackoff = 12                     // how often PollAfter doubles when polling found nothing
)

// A pollPage is memory of a file that its program maps. Its word names the queue pair
// that is polled, or is 0.
type pollPage struct{ *client.SharedMemory }

func (b pollPage) word() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b.Bytes[0])) }

// clear removes the name of a queue pair that is destroyed.
func (b pollPage) clear(name uint64) {
	if b.SharedMemory != nil {
		b.word().CompareAndSwap(name, 0)
	}
}

// pollName is the name of a queue pair on the page. It is made of what a doorbell
// contains: the file's number and the handle.
func (q *queuePair) pollName() uint64 { return q.x.file.ID + uint64(q.caps.QPHandle) }

// streams counts a doorbell, and reports whether polling the queue pair is worthwhile.
func (q *queuePair) streams() bool {
	x := q.x
	if x.dev.Adapter.IWARP() {
		return false
	}
	if x.dev.lastRung.Swap(q.a.QPN) != q.a.QPN {
		q.consecutive = 0
	}
	q.consecutive++
	return q.consecutive > PollAfter<<q.backoff
}

// offerPolling starts polling after the answer to a doorbell. The first one of a file
// also gives the program the page.
func (q *queuePair) offerPolling(a *client.Answer) {
	if a.Sender == nil || a.Sender.Descriptor() < 0 {
		return
	}
	x := q.x
	if x.pollPage.SharedMemory == nil {
		m, err := x.file.Account.NewSharedMemory(int(unsafe.Sizeof(atomic.Uint64{})))
		if err != nil {
			q.backoff = maxBackoff
			return
		}
		x.pollPage.SharedMemory = m
		a.Attach(m.TakeDescriptor(), 0, 0, 0)
		a.Flags |= uapi.ReplyPollPage
	}
	run := x.file.Runtime
	if run.Polling.Add(1) > run.MaxPolling || !x.pollPage.word().CompareAndSwap(0, q.pollName()) { // another queue pair of the file is polled
		run.Polling.Add(-1)
		return
	}
	a.After = q.poll
}

// poll polls the queue pair's ring after an offer and carries out what the program
// posts, until nothing came for pollFor, or until the connection has a request or
// ends.
func (q *queuePair) poll(fd int) {
	f := q.x.file
	defer f.Runtime.Polling.Add(-1)
	w := poller{q: q, posted: -1, since: time.Now()}
	for look := 1; ; look++ {
		rest := look%pollYield == 0
		over := rest && (time.Since(w.since) > pollFor || client.Readable(uintptr(fd)))
		alive := f.Between(func() { w.look(rest, over) })
		switch {
		case over || !alive || w.gone:
			return
		case rest:
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
}

// A poller is the state of polling a queue pair.
type poller struct {
	q      *queuePair
	begun  bool
	gone   bool // the queue pair was destroyed
	seen   uint32
	posted int // looks that found requests, without the first
	since  time.Time
}

// look carries out the requests that were posted since the last call. Over is set in the
// last call.
func (w *poller) look(rest, over bool) {
	q := w.q
	if q.ended {
		w.gone = true
		return
	}
	if !w.begun { // requests may have come since the page has the name
		w.begun, w.seen = true, q.a.SQ.Producer()-1
	}
	if over {
		q.x.pollPage.word().Store(0) // before the last look
	}
	n := q.a.SQ.Producer()
	if n != w.seen {
		w.seen, w.since = n, time.Now()
		w.posted++
		q.a.Doorbell()
	} else if rest && n != q.a.SQ.Consumer() {
		// The ring may have wrapped while the requests before were carried out.
		q.a.Doorbell()
	}
	if over {
		q.backoff = min(q.backoff+1, maxBackoff)
		if w.posted > 0 {
			q.backoff = 0
		}
	}
}
