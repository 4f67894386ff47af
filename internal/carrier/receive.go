package carrier

import "softrdma/verbs"

const receiveBatch = 8 // receives that are posted at once; less than SpareReceives

// receives are the receives of a connection.
type receives struct {
	in      Frames
	empty   []int // of in, without a receive
	held    int   // that the owner keeps
	entries [receiveBatch]verbs.SGE
}

// add posts a receive, together with others: up to receiveBatch - 1 wait, with credits for the next frame
// or push.
func (r *receives) add(c *Conn, i int) error {
	r.empty = append(r.empty, i)
	return r.batch(c)
}

// keep leaves a receive to the owner.
func (r *receives) keep(c *Conn) error {
	if r.held++; !c.open() {
		return nil
	}
	return r.batch(c)
}

// batch posts the receives that wait if they are enough, or if no others are posted.
func (r *receives) batch(c *Conn) error {
	if n := len(r.empty); n < receiveBatch && n+r.held < c.cfg.Receives {
		return nil
	}
	return r.post(c)
}

// post posts the receives that wait.
func (r *receives) post(c *Conn) error {
	n := len(r.empty)
	if n == 0 {
		return nil
	}
	var list [receiveBatch]verbs.RecvWR
	for k, i := range r.empty {
		r.entries[k] = r.in.entry(r.in.regions[0].MR, i, r.in.size)
		list[k] = verbs.RecvWR{WRID: c.id(workReceive, i), SGL: r.entries[k : k+1]}
		if c.credits != nil {
			c.credits.Consume()
		}
	}
	r.empty = r.empty[:0]
	return c.qp.PostRecv(list[:n]...)
}

// free frees the memory of a connection that has gone, unless the owner uses it.
func (r *receives) free() {
	if r.in.Deregister(); r.held == 0 {
		r.in.Free()
	}
}
