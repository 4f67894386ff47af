package ucx

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"softrdma/verbs"
)

// UcpMmapParams are the parameters of UcpContext.MemMap.
type UcpMmapParams struct {
	address   unsafe.Pointer
	length    uint64
	hasLength bool
	allocate  bool
	fixed     bool
	memType   UcsMemoryType
}

// SetAddress sets the memory to map. Nil is for Allocate.
func (p *UcpMmapParams) SetAddress(address unsafe.Pointer) *UcpMmapParams {
	p.address = address
	return p
}

// SetLength sets the length in bytes, which must be set.
func (p *UcpMmapParams) SetLength(length uint64) *UcpMmapParams {
	p.length, p.hasLength = length, true
	return p
}

// Allocate asks for new memory. An address is a hint, and has no effect.
func (p *UcpMmapParams) Allocate() *UcpMmapParams {
	p.allocate = true
	return p
}

// Nonblocking says that pages may be mapped when they are used. It has no effect.
func (p *UcpMmapParams) Nonblocking() *UcpMmapParams { return p }

// Fixed asks for new memory at exactly the address, which UcpContext.MemMap refuses with
// UCS_ERR_UNSUPPORTED.
func (p *UcpMmapParams) Fixed() *UcpMmapParams {
	p.fixed = true
	return p
}

// SetProtection says what may be done with the memory. It has no effect: UCX's binding has no
// operations on remote memory, and peers cannot access the memory otherwise.
func (p *UcpMmapParams) SetProtection(prot UcpProtection) *UcpMmapParams { return p }

// SetMemoryType sets the type of the memory, which must be host memory.
func (p *UcpMmapParams) SetMemoryType(memType UcsMemoryType) *UcpMmapParams {
	p.memType = memType
	return p
}

// UcpMemAttributes is the result of UcpMemory.Query. Fields that were not requested are zero.
type UcpMemAttributes struct {
	Address unsafe.Pointer
	Length  uint64
	MemType UcsMemoryType
}

// A UcpMemory is memory that UcpContext.MemMap mapped.
type UcpMemory struct {
	attributes UcpMemAttributes
	mu         sync.Mutex
	memory     *verbs.Memory // that MemMap allocated
}

// MemMap maps memory of the program, or allocates memory. Operations also accept unmapped
// memory; they register what they need, and keep it registered for later ones.
func (c *UcpContext) MemMap(p *UcpMmapParams) (*UcpMemory, error) {
	refuse := func(s UcsStatus, text string) (*UcpMemory, error) {
		return nil, &UcxError{s, errors.New(text)}
	}
	switch {
	case !p.memType.host():
		return refuse(UCS_ERR_UNSUPPORTED, fmt.Sprintf("%v memory", p.memType))
	case p.fixed:
		return refuse(UCS_ERR_UNSUPPORTED, "memory at a fixed address")
	case !p.hasLength:
		return refuse(UCS_ERR_INVALID_PARAM, "no length set")
	case p.length > math.MaxInt:
		return refuse(UCS_ERR_NO_MEMORY, fmt.Sprintf("%d bytes", p.length))
	case p.length > 0 && !p.allocate && p.address == nil:
		return refuse(UCS_ERR_INVALID_PARAM, "neither an address nor Allocate set")
	}
	m := &UcpMemory{attributes: UcpMemAttributes{p.address, p.length, UCS_MEMORY_TYPE_HOST}}
	if p.allocate && p.length > 0 {
		var err error
		if m.memory, err = verbs.AllocMemory(int(p.length), verbs.AllocConfig{Device: c.dev.Device}); err != nil {
			return nil, &UcxError{UCS_ERR_NO_MEMORY, err}
		}
		m.attributes.Address = pointer(m.memory.Bytes())
	}
	return m, nil
}

// Query returns attributes of the memory.
func (m *UcpMemory) Query(attrs ...UcpMemAttribute) (*UcpMemAttributes, error) {
	a := &UcpMemAttributes{}
	for _, attr := range attrs {
		switch attr {
		case UCP_MEM_ATTR_FIELD_ADDRESS:
			a.Address = m.attributes.Address
		case UCP_MEM_ATTR_FIELD_LENGTH:
			a.Length = m.attributes.Length
		case UCP_MEM_ATTR_FIELD_MEM_TYPE:
			a.MemType = m.attributes.MemType
		}
	}
	return a, nil
}

// Close ends the mapping and frees memory that MemMap allocated. A second Close does nothing.
func (m *UcpMemory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.memory
	if own == nil {
		return nil
	}
	m.memory = nil
	return failure(own.Free())
}
