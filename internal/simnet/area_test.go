package simnet_test

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/simnet/rig"
)

// An area is a registered memory region with a model of its expected contents.
type area struct {
	name   string
	base   uint64
	region *memory.Region
	mem    []byte
	want   []byte
	maybe  []patch // data that requests with unknown outcome may have written
	loose  []span  // parts with unknown contents
}

// A patch is data at an offset.
type patch struct {
	off  int
	data []byte
}

// A span is a part of an area.
type span struct {
	area   *area
	off, n int
}

// newArea registers n bytes, random if fill is set. The addresses of areas depend only on
// their order, because packets contain them.
func (h *host) newArea(name string, n int, access qp.Access, fill bool) *area {
	w := h.w
	w.nextBase += uint64(n+0xfffff) &^ 0xffff
	a := &area{name: fmt.Sprintf("%s of host %d", name, h.index), base: w.nextBase, mem: aligned(n)}
	if fill {
		for i := 0; i+8 <= n; i += 8 {
			binary.LittleEndian.PutUint64(a.mem[i:], w.rng.Uint64())
		}
	}
	a.want = bytes.Clone(a.mem)
	var err error
	var segment *memory.Segment // nil: the payload travels through the rings
	if len(h.areas)%4 != 0 {
		segment = rig.Segment(a.mem)
	}
	if a.region, err = h.PD.RegisterSegment(a.mem, a.base, access, segment); err != nil {
		w.fail("registering %s: %v", name, err)
	}
	h.areas = append(h.areas, a)
	return a
}

func (a *area) write(off int, data []byte) { copy(a.want[off:], data) }

// check compares the memory with the model.
func (a *area) check() error {
	if bytes.Equal(a.mem, a.want) {
		return nil
	}
	for i := range a.mem {
		if a.mem[i] != a.want[i] && !a.explained(i) {
			return fmt.Errorf("%s: byte %d is %#02x, expected %#02x", a.name, i, a.mem[i], a.want[i])
		}
	}
	return nil
}

func (a *area) explained(i int) bool {
	for _, s := range a.loose {
		if i >= s.off && i < s.off+s.n {
			return true
		}
	}
	for _, p := range a.maybe {
		if i >= p.off && i < p.off+len(p.data) && p.data[i-p.off] == a.mem[i] {
			return true
		}
	}
	return false
}

// entry returns the scatter/gather entry of a span.
func (s span) entry() memory.SGE {
	return memory.SGE{Addr: s.area.base + uint64(s.off), Length: uint32(s.n), LKey: s.area.region.Key}
}

func entries(list []span) (sges []memory.SGE) {
	for _, s := range list {
		sges = append(sges, s.entry())
	}
	return sges
}

// gather reads the model's bytes of a list of spans.
func gather(list []span) (b []byte) {
	for _, s := range list {
		b = append(b, s.area.want[s.off:s.off+s.n]...)
	}
	return b
}

// found returns the memory's bytes of the first n of a list of spans.
func found(list []span, n int) (b []byte) {
	for _, s := range list {
		k := min(n-len(b), s.n)
		b = append(b, s.area.mem[s.off:s.off+k]...)
	}
	return b
}

// scatter writes data into the model along a list of spans.
func scatter(list []span, data []byte) {
	for _, s := range list {
		n := min(len(data), s.n)
		s.area.write(s.off, data[:n])
		data = data[n:]
	}
}

// settle copies the memory's current contents into the model.
func settle(list []span) {
	for _, s := range list {
		s.area.write(s.off, s.area.mem[s.off:s.off+s.n])
	}
}

func loosen(list []span) {
	for _, s := range list {
		s.area.loose = append(s.area.loose, s)
	}
}

// cut divides n bytes at off into at most k spans in random order, some empty.
func (w *world) cut(a *area, off, n, k int) (list []span) {
	if n == 0 && w.rng.IntN(2) == 0 {
		return nil
	}
	for k = 1 + w.rng.IntN(k); k > 1; k-- {
		part := w.rng.IntN(n + 1)
		list = append(list, span{a, off, part})
		off, n = off+part, n-part
	}
	list = append(list, span{a, off, n})
	w.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// anywhere chooses at most k random spans of an area with n bytes in total.
func (w *world) anywhere(a *area, n, k int) (list []span) {
	list = w.cut(a, 0, n, k)
	for i := range list {
		list[i].off = w.rng.IntN(len(a.mem) - list[i].n + 1)
	}
	return list
}
