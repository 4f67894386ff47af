//go:build linux

package commands

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/uapi"
)

// A doorbell is a message to the server and its answer: two switches of threads,
// for one short request. Where a program rings for one queue pair again and
// again, and nobody else on the device meanwhile, the server watches that queue
// pair: it looks into its ring by itself, and a word in memory tells the program
// that it need not ring. Programs that answer each other ring in turn, and a
// server that looks around would take the processor from them.
const (
	PollAfter  = 16                     // doorbells in a row
	pollFor    = 100 * time.Microsecond // without a request
	pollYield  = 16                     // looks, before others may run
	maxBackoff = 12                     // how many times watchFrom doubles where nothing came
)

// A pollPage is memory of a file that the program maps: a word with what is
// watched, or 0.
type pollPage struct{ *client.SharedMemory }

func (b pollPage) word() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b.Bytes[0])) }

// clear takes the name of a queue pair that goes away off the board.
func (b pollPage) clear(name uint64) {
	if b.SharedMemory != nil {
		b.word().CompareAndSwap(name, 0)
	}
}

// pollName is how the board names a queue pair: by what a doorbell has, the
// file's number and the handle.
func (q *queuePair) pollName() uint64 { return q.x.file.ID + uint64(q.caps.QPHandle) }

// streams counts a doorbell, and tells whether it is worth while to watch the
// queue pair.
func (q *queuePair) streams() bool {
	x := q.x
	if x.own || x.dev.Adapter.IWARP() {
		return false
	}
	if x.dev.lastRung.Swap(q.a.QPN) != q.a.QPN {
		q.consecutive = 0
	}
	q.consecutive++
	return q.consecutive > PollAfter<<q.backoff
}

// offerPolling makes the answer to a doorbell the beginning of a watch. The first one
// of a file brings the program the board.
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
		a.Flags |= uapi.ReplyBoard
	}
	run := x.file.Runtime
	if run.Polling.Add(1) > run.MaxPolling || !x.pollPage.word().CompareAndSwap(0, q.pollName()) { // the file's other one is watched
		run.Polling.Add(-1)
		return
	}
	a.After = q.poll
}

// poll polls the queue pair's ring after an offer and carries out what the program
// posts, until nothing came for watchFor, or until the connection has a request or
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

// A poller is the state of a watch.
type poller struct {
	q      *queuePair
	begun  bool
	gone   bool // the queue pair was destroyed
	seen   uint32
	posted int // looks that found requests, without the first
	since  time.Time
}

// look carries out what was posted since the last look. Over is set at the last one.
func (w *poller) look(rest, over bool) {
	q := w.q
	if q.ended {
		w.gone = true
		return
	}
	if !w.begun { // whatever was posted since the board had the name
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
