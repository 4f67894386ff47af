// Package regcache keeps memory of the program registered, for the requests that use it again.
package regcache

import "softrdma/verbs"

// maxCached bounds the pieces of memory that a cache keeps.
const maxCached = 256

// A Cache keeps memory of the program registered after requests have ended, because programs use
// the same buffers again. Peers have no right to this memory. What peers read, messages and regions,
// is registered apart and never kept: a peer that once had the key could read the memory later.
//
// Memory that is kept is not garbage, so its addresses cannot become those of something else. The
// caller serializes the calls.
type Cache struct {
	pd    *verbs.PD
	limit int // bytes
	kept  map[key]*Registration
	bytes int // of kept
	// Those that no request uses, a ring around this one: next is the oldest.
	unused Registration
}

// A key says which memory is registered. It is the same memory as long as it is registered.
type key struct {
	first *byte
	n     int
	write bool // the device may write to it
}

// A Registration is memory that requests use.
type Registration struct {
	MR             *verbs.MR
	cache          *Cache
	key            key
	uses           int
	cached         bool
	previous, next *Registration
}

// New makes a cache of memory that is registered in a domain, of limit bytes at most.
func New(pd *verbs.PD, limit int) *Cache {
	c := &Cache{pd: pd, limit: limit, kept: map[key]*Registration{}}
	c.unused.previous, c.unused.next = &c.unused, &c.unused
	return c
}

// Register returns the registration of memory that is not empty, for one request.
func (c *Cache) Register(buf []byte, write bool) (*Registration, error) {
	k := key{&buf[0], len(buf), write}
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
	r := &Registration{MR: m, cache: c, key: k, uses: 1}
	// The program may free what it allocated as soon as no request uses it.
	if len(buf) <= max(c.limit, 0)/4 && !verbs.Allocated(buf) {
		r.cached = true
		c.kept[k] = r
		c.bytes += len(buf)
	}
	return r, nil
}

// Release ends a request's use of a registration.
func (r *Registration) Release() {
	c := r.cache
	if r.uses--; r.uses > 0 {
		return
	}
	if !r.cached {
		_ = r.MR.Deregister() // no window is bound to it
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

func (r *Registration) unlink() {
	r.previous.next, r.next.previous = r.next, r.previous
	r.previous, r.next = nil, nil
}

// drop deregisters memory that no request uses.
func (c *Cache) drop(r *Registration) {
	r.unlink()
	delete(c.kept, r.key)
	c.bytes -= r.key.n
	_ = r.MR.Deregister() // no window is bound to it
}

// Clear deregisters everything. No request uses it.
func (c *Cache) Clear() {
	for c.unused.next != &c.unused {
		c.drop(c.unused.next)
	}
}

// Kept returns how many pieces of memory the cache keeps or requests use, and their bytes.
func (c *Cache) Kept() (pieces, bytes int) { return len(c.kept), c.bytes }
