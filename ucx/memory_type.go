package ucx

import (
	"fmt"
	"slices"
	"strings"
)

// A UcsMemoryType is where memory is. The numbers are those of ucs_memory_type_t.
type UcsMemoryType int

// The types of memory. Operations accept UCS_MEMORY_TYPE_HOST, and UCS_MEMORY_TYPE_UNKNOWN for
// it.
const (
	UCS_MEMORY_TYPE_HOST         UcsMemoryType = 0
	UCS_MEMORY_TYPE_CUDA         UcsMemoryType = 1
	UCS_MEMORY_TYPE_CUDA_MANAGED UcsMemoryType = 2
	UCS_MEMORY_TYPE_ROCM         UcsMemoryType = 3
	UCS_MEMORY_TYPE_ROCM_MANAGED UcsMemoryType = 4
	UCS_MEMORY_TYPE_UNKNOWN      UcsMemoryType = 10
)

// memoryTypeNames are UCX's names of its types. The binding has constants for some of them.
var memoryTypeNames = []string{"host", "cuda", "cuda-managed", "rocm", "rocm-managed", "rdma",
	"ze-host", "ze-device", "ze-managed", "gaudi", "unknown"}

// String returns UCX's name of the type.
func (m UcsMemoryType) String() string {
	if m < 0 || int(m) >= len(memoryTypeNames) {
		return fmt.Sprintf("memory type %d", int(m))
	}
	return memoryTypeNames[m]
}

// Set sets the type by its name, for package flag.
func (m *UcsMemoryType) Set(value string) error {
	i := slices.IndexFunc(memoryTypeNames, func(s string) bool { return strings.EqualFold(s, value) })
	if i < 0 {
		return fmt.Errorf("unknown memory type %q, expected one of %s", value, strings.Join(memoryTypeNames, ", "))
	}
	*m = UcsMemoryType(i)
	return nil
}

// IsMemTypeSupported reports whether a mask of UcpContext.MemoryTypesMask has a type.
func IsMemTypeSupported(memType UcsMemoryType, mask uint64) bool {
	return memType >= 0 && memType < 64 && mask>>memType&1 != 0
}

// host reports whether memory of a type is used as host memory.
func (m UcsMemoryType) host() bool { return m == UCS_MEMORY_TYPE_HOST || m == UCS_MEMORY_TYPE_UNKNOWN }
