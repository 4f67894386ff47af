//go:build linux

package uverbs

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A doorbell is a message to the server and its answer: two switches of threads,
// for one short request. Where a program rings for one queue pair again and
// again, and nobody else on the device meanwhile, the server watches that queue
// pair: it looks into its ring by itself, and a word in memory tells the program
// that it need not ring. Programs that answer each other ring in turn, and a
// server that looks around would take the processor from them.
const (
	watchFrom = 16                     // doorbells in a row
	watchFor  = 100 * time.Microsecond // without a request
	watchRest = 16                     // looks, before others may run
	watchShy  = 12                     // how many times watchFrom doubles where nothing came
)

// processors are those that this process may use. One is left to everybody
// else: with one alone nothing is watched.
var processors = runtime.NumCPU()

// A board is memory of a file that the program maps: a word with what is
// watched, or 0.
type board struct{ *shared }

func (b board) word() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b.mem[0])) }

// clear takes the name of a queue pair that goes away off the board.
func (b board) clear(name uint64) {
	if b.shared != nil {
		b.word().CompareAndSwap(name, 0)
	}
}

// watchName is how the board names a queue pair: by what a doorbell has, the
// file's number and the handle.
func (q *queuePair) watchName() uint64 { return q.x.file.id + uint64(q.caps.QPHandle) }

// streams counts a doorbell, and tells whether it is worth while to watch the
// queue pair.
func (q *queuePair) streams() bool {
	x := q.x
	if x.own || x.dev.a.IWARP() {
		return false
	}
	if x.dev.rang.Swap(q.a.QPN) != q.a.QPN {
		q.row = 0
	}
	q.row++
	return q.row > watchFrom<<q.shy
}

// offer makes the answer to a doorbell the beginning of a watch. The first one
// of a file brings the program the board.
func (q *queuePair) offer(a *answer) {
	if a.exchange == nil || a.exchange.fd < 0 {
		return
	}
	x := q.x
	if x.board.shared == nil {
		m, err := x.newShared(int(unsafe.Sizeof(atomic.Uint64{})))
		if err != nil {
			q.shy = watchShy
			return
		}
		x.board.shared = m
		a.give(m.hand(), 0, 0, 0)
		a.Flags |= replyBoard
	}
	s := x.file.server
	if s.watching.Add(1) >= int32(processors) || !x.board.word().CompareAndSwap(0, q.watchName()) { // the file's other one is watched
		s.watching.Add(-1)
		return
	}
	a.watch = q
}

// watch carries out what the program posts after an offer, until that was
// nothing for a while or the connection has a request or its end.
func (q *queuePair) watch(e *exchange) {
	f := q.x.file
	defer f.server.watching.Add(-1)
	var seen uint32
	posted, since := -1, time.Now()
	for looks := 0; ; looks++ {
		f.mu.Lock()
		if f.ended || q.ended {
			f.mu.Unlock()
			return
		}
		if looks == 0 { // whatever came since the word stands there
			seen = q.a.SQ.Producer() - 1
		}
		rest := looks%watchRest == watchRest-1
		over := rest && (time.Since(since) > watchFor || readable(uintptr(e.fd)))
		if over {
			q.x.board.word().Store(0) // before the last look
		}
		n := q.a.SQ.Producer()
		if n != seen {
			seen, since = n, time.Now()
			posted++
			q.a.Doorbell()
		} else if rest && n != q.a.SQ.Consumer() {
			// The ring may have gone round while the requests before were carried out.
			q.a.Doorbell()
		}
		if over {
			q.shy = min(q.shy+1, watchShy)
			if posted > 0 {
				q.shy = 0
			}
		}
		f.mu.Unlock()
		switch {
		case over:
			return
		case rest:
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
}
