package provider

import (
	"softrdma/internal/memory"
	"softrdma/internal/qp"
)

// A PD is a protection domain. It makes what work requests refer to.
type PD interface {
	Dealloc() error
	Register(b Buffer, base uint64, access qp.Access) (Region, error)
	Reregister(old Region, b Buffer, base uint64, access qp.Access) (Region, error)
	Deregister(r Region) error
	AllocWindow(kind memory.Kind) (key uint32, err error)
	FreeWindow(key uint32) error // of any variant
	CreateAH(path qp.Path) (num uint32, err error)
	DestroyAH(num uint32) error
	CreateSRQ(depth, maxSGE, limit int, owner any) (SRQ, error)
	CreateQP(c *QPConfig, owner any) (QP, error)
}

// A Buffer is memory to register. It stays the caller's.
type Buffer struct {
	Mem []byte

	// Segment is where the memory lies if peers on the same host may map it, else nil.
	Segment *memory.Segment
}

// A Region is registered memory as work requests name it.
type Region struct {
	Key       uint32
	Base, Len uint64
	Of        any // the device's own object
}
