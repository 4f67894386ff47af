package msg

import "softrdma/verbs"

// maxCached bounds the pieces of memory that a cache keeps.
const maxCached = 256

// A cache keeps memory of the program registered after requests have ended, because programs use
// the same buffers again. Peers have no right to this memory. What peers read, messages and regions,
// is registered apart and never kept: a peer that once had the key could read the memory later.
//
// Memory that is kept is not garbage, so its addresses cannot become those of something else. The
// worker's lock guards a cache.
type cache struct {
	pd    *verbs.PD
	limit int // bytes
	kept  map[cacheKey]*registration
	bytes int // of kept
	// Those that no request uses, a ring around this one: next is the oldest.
	unused registration
}

// A cacheKey says which memory is registered. It is the same memory as long as it is registered.
type cacheKey struct {
	first *byte
	n     int
	write bool // the device may write to it
}

// A registration is memory that requests use.
type registration struct {
	cache          *cache
	mr             *verbs.MR
	key            cacheKey
	uses           int
	cached         bool
	previous, next *registration
}

func newCache(pd *verbs.PD, limit int) *cache {
	c := &cache{pd: pd, limit: limit, kept: map[cacheKey]*registration{}}
	c.unused.previous, c.unused.next = &c.unused, &c.unused
	return c
}

// register returns the registration of memory that is not empty, for one request.
func (c *cache) register(buf []byte, write bool) (*registration, error) {
	k := cacheKey{&buf[0], len(buf), write}
	if r := c.kept[k]; r != nil {
		if r.uses++; r.uses == 1 {
			r.unlink()
		}
		return r, nil
	}
	access := verbs.Access(0)
	if write {
		access = verbs.LocalWrite
	}
	m, err := c.pd.RegisterMemory(buf, access)
	if err != nil {
		return nil, err
	}
	r := &registration{cache: c, mr: m, key: k, uses: 1}
	// The program may free what it allocated as soon as no request uses it.
	if len(buf) <= max(c.limit, 0)/4 && !verbs.Allocated(buf) {
		r.cached = true
		c.kept[k] = r
		c.bytes += len(buf)
	}
	return r, nil
}

// release ends a request's use of a registration.
func (c *cache) release(r *registration) {
	if r.uses--; r.uses > 0 {
		return
	}
	if !r.cached {
		_ = r.mr.Deregister() // no window is bound to it
		return
	}
	last := c.unused.previous
	r.previous, r.next = last, &c.unused
	last.next, c.unused.previous = r, r
	for c.bytes > c.limit || len(c.kept) > maxCached {
		oldest := c.unused.next
		if oldest == &c.unused {
			return // requests use the others
		}
		c.drop(oldest)
	}
}

func (r *registration) unlink() {
	r.previous.next, r.next.previous = r.next, r.previous
	r.previous, r.next = nil, nil
}

// drop deregisters memory that no request uses.
func (c *cache) drop(r *registration) {
	r.unlink()
	delete(c.kept, r.key)
	c.bytes -= r.key.n
	_ = r.mr.Deregister() // no window is bound to it
}

// clear deregisters everything. No request uses it.
func (c *cache) clear() {
	for c.unused.next != &c.unused {
		c.drop(c.unused.next)
	}
}
