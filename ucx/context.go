package ucx

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// A UcpContext holds what the workers of a program share: the device and the enabled features.
type UcpContext struct {
	dev    *device
	params UcpParams
	closed atomic.Bool
}

// UcpContextAttributes is the result of UcpContext.Query. Fields that were not requested are
// zero.
type UcpContextAttributes struct {
	RequestSize uint64 // size of a request in bytes
	ThreadMode  UcsThreadMode
	MemoryTypes uint64 // a bit for each UcsMemoryType that operations accept
	Name        string
}

// A UcpConfig is UCX's configuration. softrdma has none of its options.
type UcpConfig struct{}

// ReadConfig returns the configuration.
func ReadConfig() (UcpConfig, error) { return UcpConfig{}, nil }

// Modify would set an option. It returns an error with UCS_ERR_NO_ELEM, as UCX does for an
// unknown option.
func (c *UcpConfig) Modify(name string, value string) error {
	return &UcxError{UCS_ERR_NO_ELEM, fmt.Errorf("option %q", name)}
}

// Close releases the configuration.
func (c *UcpConfig) Close() {}

// NewUcpContext makes a context. It opens the device if no other context has.
func NewUcpContext(contextParams *UcpParams) (*UcpContext, error) {
	dev, err := openDevice()
	if err != nil {
		return nil, &UcxError{UCS_ERR_NO_DEVICE, err}
	}
	return &UcpContext{dev: dev, params: *contextParams}, nil
}

// Close closes the context, and the device after the last context and worker. A second Close does
// nothing.
func (c *UcpContext) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	return failure(c.dev.release())
}

// MemoryTypesMask returns a bit for each type of memory that operations accept: host memory.
func (c *UcpContext) MemoryTypesMask() (uint64, error) { return 1 << UCS_MEMORY_TYPE_HOST, nil }

// Query returns attributes of the context.
func (c *UcpContext) Query(attrs ...UcpContextAttr) (*UcpContextAttributes, error) {
	a := &UcpContextAttributes{}
	for _, attr := range attrs {
		switch attr {
		case UCP_ATTR_FIELD_REQUEST_SIZE:
			a.RequestSize = uint64(unsafe.Sizeof(request{}))
		case UCP_ATTR_FIELD_THREAD_MODE:
			if a.ThreadMode = UCS_THREAD_MODE_SINGLE; c.params.shared {
				a.ThreadMode = UCS_THREAD_MODE_MULTI
			}
		case UCP_ATTR_FIELD_MEMORY_TYPES:
			a.MemoryTypes, _ = c.MemoryTypesMask()
		case UCP_ATTR_FIELD_NAME:
			a.Name = c.params.name
		}
	}
	return a, nil
}

// need returns an error if the context was made without a feature.
func (c *UcpContext) need(f features, name string) error {
	if c.params.features&f == 0 {
		return &UcxError{UCS_ERR_INVALID_PARAM, fmt.Errorf("the context was made without %s", name)}
	}
	return nil
}
