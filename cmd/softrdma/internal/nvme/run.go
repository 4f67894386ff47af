package nvme

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/storage/nvmeof/host"
)

// peakTime is the length of the intervals of which the fastest gives the peak rate.
const peakTime = 100 * time.Millisecond

// A run is one measurement: a number of accesses in flight, each of which begins the next one when it
// is done.
type run struct {
	b      *bench
	n      *host.Namespace
	memory *host.Memory
	blocks int64 // of --size bytes
	limit  time.Duration
	random bool

	start    time.Time
	accesses []access
	work     sync.WaitGroup

	mu       sync.Mutex // of all below
	rand     *rand.Rand
	next     int64 // block of a pattern in order
	left     int64 // accesses to begin
	stop     error // no further accesses
	tallies  [2]tally
	end      time.Duration // of the last access
	verified int64
	versions []uint32 // of the blocks' content, with --verify; 0: unknown
	busy     []bool   // blocks that are accessed
}

// A tally has what reads, or writes, have done.
type tally struct {
	latency     measure.Histogram
	count       int64
	windowCount int64 // since windowStart
	windowStart time.Duration
	peak        float64 // accesses per second
}

// An access is a request with what it is for.
type access struct {
	host.Request
	block int64
	began time.Duration
}

// Indices of tallies.
const (
	reads = iota
	writes
)

var operations = [2]string{reads: "read", writes: "write"}

func newRun(b *bench, n *host.Namespace) *run {
	r := &run{b: b, n: n, blocks: n.Size() / int64(b.size), limit: b.limit(), left: b.iters, rand: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	if r.left == 0 {
		r.left = 1<<63 - 1
	}
	r.random = b.pattern != patternRead && b.pattern != patternWrite
	for i := range r.tallies {
		r.tallies[i].latency = measure.NewHistogram()
	}
	if b.verify {
		r.versions, r.busy = make([]uint32, r.blocks), make([]bool, r.blocks)
	}
	return r
}

// total returns how many accesses are in flight.
func (r *run) total() int {
	all := r.b.depth * max(1, r.b.queues)
	if r.b.verify { // each has a block of its own
		all = int(min(int64(all), r.blocks))
	}
	return all
}

// run runs the measurement. It returns when no access is in flight.
func (r *run) run(ctx context.Context) error {
	r.accesses = make([]access, r.total())
	size := int(r.b.size)
	r.start = time.Now()
	for i := range r.accesses {
		a := &r.accesses[i]
		a.Data = r.memory.Bytes()[i*size : (i+1)*size]
		a.Done = func(*host.Request) { r.done(a) }
		r.work.Add(1)
		r.begin(a)
	}
	r.work.Wait()
	if r.stop != nil || ctx.Err() != nil {
		return errors.Join(ctx.Err(), r.stop)
	}
	return r.compareAll(ctx)
}

// begin begins an access, unless all have been done.
func (r *run) begin(a *access) {
	r.mu.Lock()
	begun := r.prepare(a, time.Since(r.start))
	r.mu.Unlock()
	r.submit(a, begun)
}

// prepare chooses what an access does. It reports false if all have been done. The caller has the lock.
func (r *run) prepare(a *access, now time.Duration) bool {
	if r.stop != nil || r.left == 0 || now >= r.limit {
		return false
	}
	r.left--
	a.Write = r.b.pattern == patternWrite || r.b.pattern == patternRandWrite || r.b.pattern == patternRandRW && r.rand.IntN(2) == 0
	a.block, a.began = r.choose(), now
	a.Offset = a.block * int64(r.b.size)
	if r.b.verify {
		r.busy[a.block] = true
		if a.Write {
			r.versions[a.block]++
			fill(a.Data, a.block, r.versions[a.block])
		}
	}
	return true
}

// submit submits an access that has begun.
func (r *run) submit(a *access, begun bool) {
	if !begun {
		r.work.Done()
	} else if err := r.n.Submit(&a.Request); err != nil {
		a.Err = err
		r.done(a)
	}
}

// choose returns the block of the next access. With --verify it is one that no other access has.
func (r *run) choose() int64 {
	for {
		block := r.next
		if r.random {
			block = r.rand.Int64N(r.blocks)
		} else if r.next++; r.next == r.blocks {
			r.next = 0
		}
		if !r.b.verify || !r.busy[block] {
			return block
		}
	}
}

// done is called when an access is done. It begins the next one.
func (r *run) done(a *access) {
	now := time.Since(r.start)
	r.mu.Lock()
	err := a.Err
	if r.b.verify {
		r.busy[a.block] = false
		if version := r.versions[a.block]; err == nil && !a.Write && version > 0 {
			err = verify(a.Data, a.block, version)
			r.verified++
		}
	}
	if err != nil && r.stop == nil {
		r.stop = fmt.Errorf("%s at byte %d: %w", operations[kindOf(a)], a.Offset, err)
	}
	r.tallies[kindOf(a)].add(now, now-a.began)
	r.end = now
	begun := r.prepare(a, now)
	r.mu.Unlock()
	r.submit(a, begun)
}

func kindOf(a *access) int {
	if a.Write {
		return writes
	}
	return reads
}

func (t *tally) add(now, took time.Duration) {
	_ = t.latency.RecordValue(int64(took)) // one of more than 100 s is left out
	t.count++
	t.windowCount++
	if window := now - t.windowStart; window >= peakTime {
		t.peak = max(t.peak, float64(t.windowCount)/window.Seconds())
		t.windowCount, t.windowStart = 0, now
	}
}

// results returns the results of the operations that the pattern has.
func (r *run) results() (list []benchResult) {
	size := int(r.b.size)
	for i := range r.tallies {
		t := &r.tallies[i]
		if t.count == 0 {
			continue
		}
		x := benchResult{operations[i], measure.Rate{Size: size, Iterations: t.count}, measure.NewLatencyResult(t.latency, size, false)}
		peak := max(t.peak, float64(t.count)/r.end.Seconds()) // the run may be shorter than an interval
		x.Add(t.count*int64(size), r.end.Seconds(), peak*float64(size))
		list = append(list, x)
	}
	return list
}

// compareAll reads all blocks that were written, and compares them.
func (r *run) compareAll(ctx context.Context) error {
	b := r.memory.Bytes()[:r.b.size]
	for block, version := range r.versions {
		if version == 0 {
			continue
		}
		if _, err := r.n.ReadContext(ctx, b, int64(block)*int64(len(b))); err != nil {
			return err
		}
		if err := verify(b, int64(block), version); err != nil {
			return err
		}
		r.verified++
	}
	return nil
}

// fill fills data with the content of a version of a block.
func fill(data []byte, block int64, version uint32) {
	x := pattern(block, version)
	for i := 0; i < len(data); i += 8 {
		binary.LittleEndian.PutUint64(data[i:], x)
		x = x*6364136223846793005 + 1442695040888963407
	}
}

// pattern returns the first word of the content of a version of a block.
func pattern(block int64, version uint32) uint64 { return uint64(block)<<32 ^ uint64(version) }

// verify checks that data is the content of a version of a block.
func verify(data []byte, block int64, version uint32) error {
	x := pattern(block, version)
	for i := 0; i < len(data); i += 8 {
		if found := binary.LittleEndian.Uint64(data[i:]); found != x {
			at := block*int64(len(data)) + int64(i)
			return cli.DataErrorf("wrong data at byte %d: expected %#x of version %d of the block, found %#x", at, x, version, found)
		}
		x = x*6364136223846793005 + 1442695040888963407
	}
	return nil
}
