package coll

const (
	maxPairs      = 8 // members up to which a long all-reduce is pairwise
	pairsSegments = 4 // other algorithms' segments in one of a pairwise all-reduce
)

// A flow receives the segments that one member sends in a pairwise all-reduce: first its elements of this
// member's block, then the results of its own block.
type flow struct {
	from    int
	results []piece
	posts   [lookahead]*receive
	next    int // to post
}

// A pairs is a pairwise all-reduce. Each member combines one block, of which all others send it their
// elements, and sends all others the result. So a segment passes two members only, and no member waits
// for more than one message after another, however long others take to run.
type pairs[T any] struct {
	*reduction[T]
	dst, src []T
	parts    blocks
	own      []piece // segments of this member's block
	flows    []flow  // of the others, by rank
	in       [][lookahead][]T
}

// step returns the number of elements in a segment. Few long segments are best where more members run than
// there are processors: each costs a member a turn on one.
func (p *pairs[T]) step() int { return pairsSegments * p.reduction.step() }

// allReducePairs is the pairwise algorithm.
func (c *reduction[T]) allReducePairs(dst, src []T) {
	n, r := c.g.Size(), c.g.rank
	p := &pairs[T]{reduction: c, dst: dst, src: src, parts: blocks{len(src), n}, in: make([][lookahead][]T, n-1)}
	step := p.step()
	p.own = pieces(p.parts, r, step)
	for i := range n {
		if i != r {
			p.flows = append(p.flows, flow{from: i, results: pieces(p.parts, i, step)})
		}
	}
	for range lookahead {
		for k := range p.flows {
			p.post(k)
		}
	}
	for k := range pieces(p.parts, 0, step) { // the longest block has the most
		for d := 1; d < n; d++ { // each member begins with another one
			to := p.flows[(r+d-1)%(n-1)]
			if k < len(to.results) {
				x := to.results[k]
				c.send(to.from, raw(src[x.lo:x.hi]))
			}
		}
	}
	p.combineOwn()
	p.receiveResults()
}

// post posts the next receive of a flow.
func (p *pairs[T]) post(k int) {
	f := &p.flows[k]
	i := f.next
	switch {
	case i < len(p.own):
		x := p.own[i]
		slot := &p.in[k][i%lookahead]
		if *slot == nil {
			*slot = p.scratch(min(p.step(), p.parts.start(1)))
		}
		f.posts[i%lookahead] = p.reduction.post(f.from, raw((*slot)[:x.hi-x.lo]))
	case i < len(p.own)+len(f.results):
		x := f.results[i-len(p.own)]
		f.posts[i%lookahead] = p.reduction.post(f.from, raw(p.dst[x.lo:x.hi]))
	}
	f.next++
}

// await waits for the segment i of a flow.
func (p *pairs[T]) await(k, i int) bool {
	x := p.flows[k].posts[i%lookahead]
	return x != nil && p.wait(x)
}

// elements returns a member's elements of the segment i of this member's block.
func (p *pairs[T]) elements(rank, i int) []T {
	x := p.own[i]
	switch r := p.g.rank; {
	case rank == r:
		return p.src[x.lo:x.hi]
	case rank > r:
		rank-- // flows leave this member out
	}
	return p.in[rank][i%lookahead][:x.hi-x.lo]
}

// combineOwn combines the segments of this member's block in the order of the ranks, and sends the
// results.
func (p *pairs[T]) combineOwn() {
	r := p.g.rank
	for i, x := range p.own {
		for k := range p.flows {
			if !p.await(k, i) {
				return
			}
		}
		sum, left := p.dst[x.lo:x.hi], p.elements(0, i)
		for rank := 1; rank < p.g.Size(); rank++ {
			into := sum
			if rank < r { // the sum may be where this member's own elements are, which are still to come
				into = left
			}
			p.combine(into, left, p.elements(rank, i))
			left = into
		}
		for d := range p.flows {
			p.send(p.flows[(r+d)%len(p.flows)].from, raw(sum))
		}
		for k := range p.flows {
			p.post(k)
		}
	}
}

// receiveResults receives the blocks of the others.
func (p *pairs[T]) receiveResults() {
	for i := len(p.own); i < len(p.own)+len(pieces(p.parts, 0, p.step())); i++ {
		for k := range p.flows {
			if i < len(p.own)+len(p.flows[k].results) {
				if !p.await(k, i) {
					return
				}
				p.post(k)
			}
		}
	}
}
