//go:build !linux

package verbs

import "softrdma/internal/reason"

// mapShared is for daemons' devices, of which there are none.
func mapShared(int) ([]byte, int, error) {
	return nil, -1, reason.NotSupported("shared memory on this system")
}

func closeShared(int) error { return nil }
