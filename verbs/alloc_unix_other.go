//go:build unix && !linux

package verbs

import (
	"errors"
	"fmt"
)

const hugePageFlag = 0

func hugePageSize() (int, error) {
	return 0, fmt.Errorf("huge pages: %w on this system", errors.ErrUnsupported)
}
