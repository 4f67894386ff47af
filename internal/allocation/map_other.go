//go:build !linux

package allocation

import "softrdma/internal/reason"

// mapShared maps memory that other processes can map, which needs Linux.
func mapShared(int) ([]byte, int, error) {
	return nil, -1, reason.NotSupported("shared memory on this system")
}

func closeShared(int) error { return nil }

func descriptorLimit() int64 { return 0 }
