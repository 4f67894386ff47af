package coll

// allGatherMapped copies the bytes of others from where they offer them, in rounds. Dst has this member's
// own. It returns false if the call continues with another algorithm.
func (c *call) allGatherMapped(dst, src []byte, other Algorithm) bool {
	g := c.g
	k := len(src)
	if own := dst[g.rank*k:][:k]; g.mesh.pool.has(own) {
		src = own
	}
	for lo := 0; lo == 0 || lo < k; lo += mappedRound {
		hi := min(lo+mappedRound, k)
		if !c.offer(offering{elements: src[lo:hi], length: k}, other) {
			return c.err != nil
		}
		for _, r := range g.mapping.others {
			copy(dst[r*k+lo:r*k+hi], offered[byte](c, r, &g.mapping.offers[r].Source, 0, hi-lo))
		}
		c.done()
		c.all()
	}
	return true
}

// broadcastMapped copies the bytes of the root, in rounds. It returns false if the call continues with
// another algorithm.
func (c *call) broadcastMapped(root int, b []byte, other Algorithm) bool {
	g := c.g
	for lo := 0; lo == 0 || lo < len(b); lo += mappedRound {
		part := b[lo:min(lo+mappedRound, len(b))]
		a := offering{length: len(b), root: root}
		if g.rank == root {
			a.elements = part
		}
		if !c.offer(a, other) {
			return c.err != nil
		}
		if g.rank != root {
			copy(part, offered[byte](c, root, &g.mapping.offers[root].Source, 0, len(part)))
		}
		c.done()
		c.all() // not before all have read all offers
	}
	return true
}

// allToAllMapped copies parts of k bytes from where others offer them. It returns false if the call
// continues with another algorithm.
func (c *call) allToAllMapped(dst, src []byte, k int, other Algorithm) bool {
	g := c.g
	me := g.rank * k
	if !c.offer(offering{elements: src, length: len(src)}, other) {
		return c.err != nil
	}
	copy(dst[me:me+k], src[me:])
	for _, r := range g.mapping.others {
		copy(dst[r*k:(r+1)*k], offered[byte](c, r, &g.mapping.offers[r].Source, me, k))
	}
	c.done()
	return c.all() || c.err != nil
}
