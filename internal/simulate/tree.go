package simulate

import (
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/simulate/hosts"
)

// A tree is an all-reduce of hosts on a binary tree, in which host i has the children 2i+1 and 2i+2. Each
// part of the vector goes to the parent once it has come from all children. From the root it comes
// back to all. Parts follow each other, so that all levels work at the same time.
type tree struct {
	group
	nodes []treeNode
	part  uint32
	last  uint32 // size of the last part
	parts int
}

// A treeNode is a host of a tree.
type treeNode struct {
	tree     *tree
	children int
	up       *branch // nil for the root
	down     [2]*branch
	got      [2]int // parts from the children
}

// A branch is a connection of a tree.
type branch struct {
	node   *treeNode // that sends
	to     *treeNode
	child  int // of the receiver that sends; -1 for the parent
	c      *hosts.Conn
	due    int // parts that may be sent
	posted int
	acked  int
}

func newTree(p *pattern, now dcb.Time, all []int) {
	r, n := p.r, len(all)
	size, part := int(p.t.Size), min(int(p.t.Part), int(p.t.Size))
	t := &tree{group: group{r: r}, nodes: make([]treeNode, n), part: uint32(part), parts: (size + part - 1) / part}
	t.last = uint32(size - (t.parts-1)*part)
	t.index = r.started(p.number, all[0], all[0], int64(size), now, t.ideal(all))
	var leaves []*branch
	for i := range t.nodes {
		x := &t.nodes[i]
		x.tree = t
		if i == 0 {
			continue
		}
		parent := &t.nodes[(i-1)/2]
		a, b := r.node(all[i]), r.node(all[(i-1)/2])
		k := parent.children
		parent.children++
		x.up = &branch{node: x, to: parent, child: k, c: t.connect(now, p.number, a, b)}
		parent.down[k] = &branch{node: parent, to: x, child: -1, c: t.connect(now, p.number, b, a)}
		x.up.c.User, parent.down[k].c.User = x.up, parent.down[k]
		if 2*i+1 >= n {
			leaves = append(leaves, x.up)
		}
	}
	for _, b := range leaves {
		b.due = t.parts
		b.send(now)
	}
}

// ideal returns the least time that the tree can take: a part from the deepest host to the root and back,
// after the other parts have left that host; or all that the link of the root's first child carries.
func (t *tree) ideal(all []int) (least dcb.Time) {
	r := t.r
	wire := func(i int) dcb.Time { return r.paths.serial(r.node(all[i]), int(t.part)) }
	deep := len(all) - 1
	least = dcb.Time(t.parts-1) * wire(deep)
	down := r.paths.message // to the deepest host, which acknowledges
	for i := deep; i > 0; i = (i - 1) / 2 {
		a, b := r.node(all[i]), r.node(all[(i-1)/2])
		least += r.paths.arrival(a, b, int(t.last)) + down(b, a, int(t.last))
		down = r.paths.arrival
	}
	if len(all) > 4 { // host 1 sends each part to its parent and to two children
		least = max(least, dcb.Time(3*(t.parts-1))*wire(1))
	}
	return least
}

// length returns the length of a part.
func (t *tree) length(number int) uint32 {
	if number == t.parts {
		return t.last
	}
	return t.part
}

// send sends the parts that may be sent.
func (b *branch) send(now dcb.Time) {
	for b.due > b.posted && b.posted-b.acked < ringDepth {
		b.posted++
		b.c.Post(now, uint64(b.posted), b.node.tree.length(b.posted))
	}
}

// received is called when a part has arrived at the receiver.
func (b *branch) received(now dcb.Time, _ uint32) {
	x := b.to
	if b.child < 0 { // from the parent
		x.pass(now)
		return
	}
	x.got[b.child]++
	done := x.got[0]
	if x.children == 2 {
		done = min(done, x.got[1])
	}
	switch {
	case x.up == nil:
		for x.down[0].due < done {
			x.pass(now)
		}
	case x.up.due < done:
		x.up.due = done
		x.up.send(now)
	}
}

// pass lets the next part go to the children.
func (x *treeNode) pass(now dcb.Time) {
	for _, d := range x.down[:x.children] {
		d.due++
		d.send(now)
	}
}

func (b *branch) sent(now dcb.Time, c *hosts.Conn, _ uint64) {
	if b.acked++; b.acked < b.node.tree.parts {
		b.send(now)
		return
	}
	b.node.tree.finished(now, c)
}

func (b *branch) failed(now dcb.Time, c *hosts.Conn, _ reason.Detail) { b.node.tree.fails(now, c) }
