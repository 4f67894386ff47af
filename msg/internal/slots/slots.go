// Package slots has memory for frames, which is used in pieces of one length.
package slots

import "softrdma/verbs"

// Memory is registered memory in slots of one length. The zero value has none.
type Memory struct {
	memory *verbs.Memory
	region *verbs.MR
	size   int
}

// New registers n slots of size bytes. After an error the caller frees what there is of them.
func New(pd *verbs.PD, n, size int) (m Memory, err error) {
	m.size = size
	if m.memory, err = verbs.AllocMemory(n*size, verbs.AllocConfig{}); err != nil {
		return m, err
	}
	m.region, err = pd.RegisterMemory(m.memory.Bytes(), verbs.LocalWrite)
	return m, err
}

// Registered reports whether there are slots.
func (m *Memory) Registered() bool { return m.region != nil }

// Size returns the length of a slot.
func (m *Memory) Size() int { return m.size }

// Bytes returns the memory of a slot.
func (m *Memory) Bytes(i int) []byte { return m.memory.Bytes()[i*m.size : (i+1)*m.size] }

// SGE returns the first n bytes of a slot as an entry of a work request.
func (m *Memory) SGE(i, n int) verbs.SGE { return m.region.SGE(i*m.size, n) }

// Deregister ends the use by the device.
func (m *Memory) Deregister() {
	if m.region != nil {
		_ = m.region.Deregister() // no window is bound to it
	}
}

// Free frees the memory, which is not registered any more.
func (m *Memory) Free() {
	if m.memory != nil {
		_ = m.memory.Free() // no region is left
	}
}
