//go:build !linux

package bench

import (
	"errors"
	"fmt"
)

// Veth is for Linux only.
func Veth(int) (*Path, error) {
	return nil, fmt.Errorf("network namespaces: %w", errors.ErrUnsupported)
}
