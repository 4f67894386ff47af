package host

import (
	"errors"
	"slices"
	"unsafe"

	"softrdma/verbs"
)

// Memory is registered memory. Controllers access it themselves, so reads, writes and compares whose
// data lies in it are not copied.
type Memory struct {
	memory      *verbs.Memory
	controllers []*Controller
}

// A key is a registered Memory of a link.
type key struct {
	begin, end uintptr
	mr         *verbs.MR
	of         *Memory
}

// Alloc allocates memory for data of the namespace. The caller frees it before it closes the
// controllers, when no command uses it any more.
func (n *Namespace) Alloc(size int) (_ *Memory, err error) {
	m := &Memory{}
	if m.memory, err = verbs.AllocMemory(size, verbs.AllocConfig{Device: n.paths[0].c.dialer.Device}); err != nil {
		return nil, err
	}
	for _, p := range n.paths {
		if err := p.c.addMemory(m); err != nil {
			return nil, errors.Join(err, m.Free())
		}
		m.controllers = append(m.controllers, p.c)
	}
	return m, nil
}

// Bytes returns the memory, nil after Free.
func (m *Memory) Bytes() []byte { return m.memory.Bytes() }

// Free frees the memory. No command may use it.
func (m *Memory) Free() (err error) {
	for _, c := range m.controllers {
		err = errors.Join(err, c.removeMemory(m))
	}
	m.controllers = nil
	return errors.Join(err, m.memory.Free())
}

// register registers memory for the link.
func (l *link) register(m *Memory) error {
	b := m.memory.Bytes()
	mr, err := l.pd.RegisterMemory(b, hostAccess)
	if err != nil {
		return err
	}
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	l.setKeys(append(l.allKeys(), key{begin, begin + uintptr(len(b)), mr, m}))
	return nil
}

// deregister takes memory from the link.
func (l *link) deregister(m *Memory) error {
	all := l.allKeys()
	i := slices.IndexFunc(all, func(k key) bool { return k.of == m })
	if i < 0 {
		return nil
	}
	mr := all[i].mr
	l.setKeys(slices.Delete(all, i, i+1))
	return mr.Deregister()
}

// forget deregisters all memory.
func (l *link) forget() (err error) {
	for _, k := range l.allKeys() {
		err = errors.Join(err, k.mr.Deregister())
	}
	l.keys.Store(nil)
	return err
}

func (l *link) allKeys() []key {
	if p := l.keys.Load(); p != nil {
		return slices.Clone(*p)
	}
	return nil
}

func (l *link) setKeys(all []key) { l.keys.Store(&all) }

// registered reports whether b lies in memory of Alloc.
func (c *Controller) registered(b []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return slices.ContainsFunc(c.memory, func(m *Memory) bool {
		all := m.memory.Bytes()
		begin := uintptr(unsafe.Pointer(unsafe.SliceData(all)))
		return at >= begin && at+uintptr(len(b)) <= begin+uintptr(len(all))
	})
}

// find returns the region in which data lies, and its offset there. The region is nil if there is none.
func (l *link) find(data []byte) (*verbs.MR, int) {
	p := l.keys.Load()
	if p == nil || len(data) == 0 {
		return nil, 0
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	for i := range *p {
		if k := &(*p)[i]; at >= k.begin && at+uintptr(len(data)) <= k.end {
			return k.mr, int(at - k.begin)
		}
	}
	return nil, 0
}
