//go:build !linux

package compare

import (
	"errors"
	"fmt"
)

// Veth returns an error: the path exists on Linux only.
func Veth(int) (*Path, error) {
	return nil, fmt.Errorf("network namespaces: %w", errors.ErrUnsupported)
}
