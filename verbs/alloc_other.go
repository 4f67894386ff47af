//go:build !linux

package verbs

import "errors"

// mapShared is for daemons' devices, of which there are none.
func mapShared(int) ([]byte, int, error) { return nil, -1, errors.ErrUnsupported }

func closeShared(int) error { return nil }
