package coll

import "context"

// ReduceScatter combines the members' src, element by element, and leaves a part of the result at
// each: rank r gets the elements from r × len(dst). All dst have the same length, and src that
// of all parts.
func ReduceScatter[T any](ctx context.Context, g *Group, dst, src []T, op Op[T]) error {
	k := len(dst)
	return reduceScatter(ctx, g, dst, src, op, func(c *call) []int {
		c.need("src", len(src), k*g.Size())
		at := make([]int, g.Size()+1)
		for i := range at {
			at[i] = i * k
		}
		return at
	})
}

// ReduceScatterV is ReduceScatter for parts of different lengths: rank r gets counts[r] elements.
// All members have the same counts.
func ReduceScatterV[T any](ctx context.Context, g *Group, dst, src []T, counts []int, op Op[T]) error {
	return reduceScatter(ctx, g, dst, src, op, func(c *call) []int {
		at := c.offsets("src", counts, len(src))
		if c.ok() {
			c.need("dst", len(dst), counts[g.rank])
		}
		return at
	})
}

func reduceScatter[T any](ctx context.Context, g *Group, dst, src []T, op Op[T], offsets func(*call) []int) error {
	automatic := Pairwise
	if len(raw(src)) >= longReduce && !op.Ordered {
		automatic = Ring
	}
	other := automatic
	if len(raw(src)) <= mappedRound && g.useMapped(len(raw(src))) {
		automatic = Mapped
	}
	c, err := reduce(ctx, g, OpReduceScatter, op, automatic)
	if err != nil {
		return err
	}
	at := offsets(c.call)
	if c.ok() {
		part := func(i int) []T { return src[at[i]:at[i+1]] }
		switch {
		case g.Size() == 1:
			copy(dst, src)
		case c.isMapped(other) && c.reduceScatterMapped(dst, src, at[g.rank], other):
		case c.algorithm == Ring:
			c.reduceScatterRing(dst, part)
		default:
			c.reduceScatterPairs(dst, part)
		}
	}
	return c.result()
}

// reduceScatterPairs sends each member its part, and combines the parts of all in rank order.
func (c *reduction[T]) reduceScatterPairs(dst []T, part func(i int) []T) {
	n, r := c.g.Size(), c.g.rank
	var in [lookahead][]T
	var posts [lookahead]*receive
	from := func(i int) int { // the other members in rank order
		if i >= r {
			return i + 1
		}
		return i
	}
	post := func(i int) {
		if i >= n-1 {
			return
		}
		k := i % lookahead
		if in[k] == nil {
			in[k] = c.scratch(len(dst))
		}
		posts[k] = c.post(from(i), raw(in[k]))
	}
	for i := range lookahead {
		post(i)
	}
	for d := 1; d < n; d++ {
		c.send((r+d)%n, raw(part((r+d)%n)))
	}
	own := part(r)
	sum := c.scratch(len(dst)) // dst may be a part of src
	begun := false
	add := func(x []T) {
		if !begun {
			copy(sum, x)
			begun = true
			return
		}
		c.combine(sum, sum, x)
	}
	for i := range n - 1 {
		if i == r {
			add(own)
		}
		if x := posts[i%lookahead]; x == nil || !c.wait(x) {
			return
		}
		add(in[i%lookahead])
		post(i + lookahead)
	}
	if r == n-1 {
		add(own)
	}
	c.flush()
	copy(dst, sum)
}

// reduceScatterRing sends each part once around the ring, to the member that it is for. Each member
// on the way combines its elements with it.
func (c *reduction[T]) reduceScatterRing(dst []T, part func(i int) []T) {
	n, r := c.g.Size(), c.g.rank
	right, left := (r+1)%n, (r-1+n)%n
	longest := 0
	for i := range n {
		longest = max(longest, len(part(i)))
	}
	acc, in := part((r-1+n)%n), c.scratch(longest)
	spare := c.scratch(longest)
	for s := range n - 1 {
		own := part((r - s - 2 + 2*n) % n)
		in = in[:len(own)]
		if !c.exchange(right, raw(acc), left, raw(in)) {
			return
		}
		c.combine(in, in, own)
		acc, in, spare = in, spare[:cap(spare)], in[:cap(in)]
	}
	copy(dst, acc)
}
