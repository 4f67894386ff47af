package subnet

// A dueHeap is members by deadline, and for each its place.
type dueHeap []*member

func (h *dueHeap) push(m *member) {
	m.place = len(*h)
	*h = append(*h, m)
	h.up(m.place)
}

func (h *dueHeap) remove(m *member) {
	i, last := m.place, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	m.place = -1
	if i < last {
		h.fix((*h)[i])
	}
}

// fix moves a member whose deadline has changed.
func (h *dueHeap) fix(m *member) {
	h.up(m.place)
	h.down(m.place)
}

func (h dueHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].deadline <= h[i].deadline {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h dueHeap) down(i int) {
	for {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < len(h); k++ {
			if h[k].deadline < h[least].deadline {
				least = k
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h dueHeap) swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].place, h[k].place = i, k
}
