package access

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"softrdma/internal/carrier"
	"softrdma/msg/internal/regcache"
	"softrdma/msg/internal/word"
	"softrdma/verbs"
)

// regionLen is the length of the peer's region in the tests. It begins at address 0.
const regionLen = 4096

// A peer is a port, and the memory behind it. It executes work requests in order, when carryOut is
// called.
type peer struct {
	t        *testing.T
	p        *Pipeline
	memory   [regionLen]byte
	queue    []posted
	err      error
	failed   error
	failPost error // of the next Post
	frames   uint64
	arrived  uint64
}

type posted struct {
	slot   int
	r      verbs.SendWR
	inline []byte
	frames uint64
}

func (c *peer) Err() error            { return c.err }
func (c *peer) Fail(err error)        { c.failed = err }
func (c *peer) Failed() bool          { return c.failed != nil }
func (c *peer) Frames() uint64        { return c.frames }
func (c *peer) Arrived(frames uint64) { c.arrived = frames }

func (c *peer) Post(slot int, r *verbs.SendWR) error {
	if c.failPost != nil {
		return c.failPost
	}
	if len(c.queue) == Max {
		c.t.Fatalf("%d work requests are in flight", Max+1)
	}
	if slices.ContainsFunc(c.queue, func(x posted) bool { return x.slot == slot }) {
		c.t.Fatalf("slot %d is used twice", slot)
	}
	c.queue = append(c.queue, posted{slot, *r, slices.Clone(r.Inline), c.frames})
	return nil
}

// carryOut executes the oldest work request, and completes it.
func (c *peer) carryOut() {
	x := c.queue[0]
	c.queue = c.queue[1:]
	a := c.p.posted[x.slot]
	if at := x.r.RemoteAddr; x.r.RKey != 7 && a.kind != Flush {
		c.t.Fatalf("key %d is used at %d, expected that of the second device", x.r.RKey, at)
	}
	here := c.p.results.Bytes(x.slot)
	if a.memory != nil {
		here = a.Data
	}
	there := c.memory[x.r.RemoteAddr:]
	switch x.r.Op {
	case verbs.OpWrite:
		if x.r.SGL == nil {
			here = x.inline
		}
		copy(there, here)
	case verbs.OpRead:
		copy(here, there[:len(a.Data)])
	case verbs.OpFetchAdd, verbs.OpCompareSwap:
		old := binary.NativeEndian.Uint64(there)
		switch {
		case x.r.Op == verbs.OpFetchAdd:
			binary.NativeEndian.PutUint64(there, old+x.r.Add)
		case old == x.r.Compare:
			binary.NativeEndian.PutUint64(there, x.r.Swap)
		}
		binary.NativeEndian.PutUint64(here, old)
	}
	c.p.Complete(x.slot)
}

// start returns a pipeline to a peer, and the pool of its accesses, which counts the ends of operations.
func start(t *testing.T, e *carrier.Engine, repeat bool) (*peer, *Pool) {
	c := &peer{t: t, p: &Pipeline{}}
	domain, err := carrier.NewDomain(e.First())
	if err != nil {
		t.Fatal(err)
	}
	pd, err := domain.PD(e.First())
	if err != nil {
		t.Fatal(err)
	}
	cache := regcache.New(pd, 1<<20)
	c.p.Config = Config{Port: c, Domain: domain, Rail: e.First(), Cache: cache, Device: 1, Repeat: repeat}
	t.Cleanup(func() {
		c.p.Release()
		cache.Clear()
	})
	return c, &Pool{Ended: func(owner any, err error) {
		o := owner.(*outcome)
		o.ends++
		o.err = err
	}}
}

func engine(t *testing.T) *carrier.Engine {
	dev, err := verbs.Open("127.0.0.1:4797", verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	e, err := carrier.NewEngine(dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// An outcome is the owner of an operation.
type outcome struct {
	o    Operation
	ends int
	err  error
}

// add begins an operation of one access.
func (c *peer) add(pool *Pool, kind Kind, at int, data []byte) *outcome {
	x := new(outcome)
	c.addTo(pool, pool.Begin(&x.o, x), kind, at, data)
	x.o.End(nil)
	return x
}

func (c *peer) addTo(pool *Pool, o *Operation, kind Kind, at int, data []byte) {
	a := pool.Access(o, kind)
	if kind != Flush {
		a.Address, a.Keys, a.Data = uint64(at), []uint32{5, 7}, data
	}
	if kind == Atomic {
		a.Atomic = word.Op{Kind: word.Xor, Operand: 1}
	}
	c.p.Add(a)
}

func (x *outcome) check(t *testing.T, what string, ended bool, want error) {
	t.Helper()
	switch {
	case x.ends != 0 && !ended:
		t.Errorf("%s has ended with %v, expected it to wait", what, x.err)
	case x.ends != 1 && ended:
		t.Errorf("%s has ended %d times, expected once", what, x.ends)
	case !errors.Is(x.err, want):
		t.Errorf("%s has ended with %v, expected %v", what, x.err, want)
	}
}

// An expected access is one of a random sequence, with what a model of the memory says about it.
type expected struct {
	*outcome
	kind Kind
	buf  []byte
	want []byte // of buf in the end
}

// Random accesses of a connection have the results of the same accesses one after the other, whenever
// completions come. Each ends once. A flush ends after everything before it, with the frames before it.
func TestAccessesAreCarriedOutInOrder(t *testing.T) {
	e := engine(t)
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c, pool := start(t, e, seed%2 == 0)
		var model [regionLen]byte
		var list []expected
		flushed := 0 // of list
		for range 400 {
			if len(c.queue) > 0 && rng.IntN(3) == 0 {
				c.carryOut()
			}
			n := []int{8, Short, Short + 1, 1000}[rng.IntN(4)]
			x := expected{kind: Kind(rng.IntN(4)), buf: make([]byte, n)}
			at := rng.IntN(regionLen - n)
			if rng.IntN(4) == 0 {
				c.frames++
			}
			if rng.IntN(4) == 0 {
				c.p.Fence()
			}
			switch x.kind {
			case Put:
				x.buf[0] = byte(rng.Uint32())
				x.want = slices.Clone(x.buf)
				copy(model[at:], x.buf)
			case Get:
				c.p.Fence() // behind loops
				x.want = slices.Clone(model[at : at+n])
			case Atomic:
				at, x.buf = at&^7, nil
				v := binary.NativeEndian.Uint64(model[at:]) ^ 1
				binary.NativeEndian.PutUint64(model[at:], v)
				c.p.Fence()
			}
			x.outcome = c.add(pool, x.kind, at, x.buf)
			if x.kind == Atomic {
				c.p.Fence() // what follows may change the word
			}
			list = append(list, x)
			flushed = checkFlushed(t, c, list, flushed)
		}
		for len(c.queue) > 0 {
			c.carryOut()
		}
		for i, x := range list {
			x.check(t, "an access", true, nil)
			if !slices.Equal(x.buf, x.want) && x.kind == Get {
				t.Fatalf("seed %d: get %d has other bytes than the model", seed, i)
			}
		}
		if c.memory != model {
			t.Fatalf("seed %d: the memory is not that of the model", seed)
		}
		if !c.p.Idle() {
			t.Fatalf("seed %d: the pipeline is not idle", seed)
		}
	}
}

// checkFlushed checks that everything before a flush that has ended is complete.
func checkFlushed(t *testing.T, c *peer, list []expected, from int) int {
	for i := len(list) - 1; i >= from; i-- {
		if list[i].kind != Flush || list[i].ends == 0 {
			continue
		}
		for _, x := range list[from:i] {
			x.check(t, "an access before a flush that has ended", true, nil)
		}
		return i
	}
	return from
}

// The pipeline begins a fenced access after the loops before it, whose compare-and-swaps the device does
// not know yet, and leaves the rest to the device's fence. Accesses behind it wait, too.
func TestFencedAccessWaitsForLoops(t *testing.T) {
	c, pool := start(t, engine(t), false)
	loop := c.add(pool, Atomic, 0, nil)
	c.p.Fence()
	c.add(pool, Put, 0, []byte{1})
	c.add(pool, Put, 1, []byte{1})
	if len(c.queue) != 1 {
		t.Fatalf("%d accesses are posted while a loop is in flight, expected 1", len(c.queue))
	}
	for loop.ends == 0 {
		c.carryOut()
	}
	if len(c.queue) != 2 || c.queue[0].r.Flags&verbs.Fence == 0 || c.queue[1].r.Flags&verbs.Fence != 0 {
		t.Fatalf("%d accesses are posted after the loop, expected 2, of which the first is fenced", len(c.queue))
	}
}

// A flush waits for the frames before it, and says that they have arrived. Without anything before it, it
// ends at once, and needs no memory.
func TestFlushWaitsForFrames(t *testing.T) {
	c, pool := start(t, engine(t), false)
	c.add(pool, Flush, 0, nil).check(t, "a flush of nothing", true, nil)
	if c.p.ready {
		t.Error("a flush of nothing has made memory")
	}
	c.frames = 3
	first := c.add(pool, Flush, 0, nil)
	c.frames = 5
	second := c.add(pool, Flush, 0, nil) // waits for the same frames
	first.check(t, "a flush", false, nil)
	c.carryOut()
	first.check(t, "a flush", true, nil)
	second.check(t, "the flush behind it", false, nil)
	if c.arrived != 3 {
		t.Errorf("%d frames have arrived, expected 3", c.arrived)
	}
	c.carryOut()
	second.check(t, "the flush behind it", true, nil)
}

// An operation ends with its last access, with the first error.
func TestOperationEndsWithItsLastAccess(t *testing.T) {
	c, pool := start(t, engine(t), false)
	x := new(outcome)
	pool.Begin(&x.o, x)
	c.addTo(pool, &x.o, Get, 0, make([]byte, 8))
	c.carryOut()
	x.check(t, "an operation that has not begun all accesses", false, nil)
	c.addTo(pool, &x.o, Get, 0, make([]byte, 1000))
	x.o.End(nil)
	x.check(t, "an operation", false, nil)
	c.p.End(errDown)
	x.check(t, "an operation", true, errDown)
}

var errDown = errors.New("down")

// A request that cannot be posted ends nothing by itself, because callers have not returned yet. The end
// of the connection ends all accesses.
func TestFailedPostWaitsForTheConnectionsEnd(t *testing.T) {
	c, pool := start(t, engine(t), false)
	first := c.add(pool, Get, 0, make([]byte, 8))
	c.failPost = errDown
	second := c.add(pool, Get, 0, make([]byte, 1000))
	if c.failed != errDown {
		t.Fatalf("the port was told %v", c.failed)
	}
	first.check(t, "the access before", false, nil)
	second.check(t, "the access that was not posted", false, nil)
	c.err = errDown
	c.p.End(errDown)
	first.check(t, "the access before", true, errDown)
	second.check(t, "the access that was not posted", true, errDown)
	c.add(pool, Put, 0, nil).check(t, "an access of a connection that has ended", true, errDown)
	if _, n := c.p.Cache.Kept(); n != 1000 {
		t.Errorf("%d bytes are registered, expected 1000", n)
	}
}

// What a failed connection leaves begins again on another, in order and with its bytes. An atomic
// operation in flight ends instead, one that waited does not.
func TestRescuedAccessesBeginAgain(t *testing.T) {
	e := engine(t)
	from, pool := start(t, e, true)
	to, _ := start(t, e, true)
	short, long := []byte{1, 2, 3}, []byte{999: 4}
	put := from.add(pool, Put, 0, short)
	uncertain := from.add(pool, Atomic, 0, nil)
	from.add(pool, Put, 8, long)
	get := from.add(pool, Get, 0, make([]byte, 3))
	put.check(t, "a short put", true, nil)
	clear(short) // it is the program's
	for range Max - 4 {
		from.add(pool, Put, 1007, []byte{9})
	}
	last := from.add(pool, Put, 1007, []byte{5})
	waiting := from.add(pool, Atomic, 2000, nil)
	rescued := from.p.Rescue()
	uncertain.check(t, "an atomic operation in flight", true, ErrUncertain)
	if n := len(rescued); n != Max+1 {
		t.Fatalf("%d accesses are rescued, expected %d", n, Max+1)
	}
	for _, x := range rescued {
		to.p.Add(x)
	}
	for len(to.queue) > 0 {
		to.carryOut()
	}
	last.check(t, "a put that waited", true, nil)
	waiting.check(t, "an atomic operation that waited", true, nil)
	get.check(t, "a get", true, nil)
	if b := to.memory; [3]byte(b[:3]) != [3]byte{1, 2, 3} || b[1007] != 5 || b[2000] != 1 {
		t.Errorf("the memory begins with %v and has %d and %d, expected 1 2 3, 5 and 1", b[:3], b[1007], b[2000])
	}
}
