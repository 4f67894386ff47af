//go:build unix && !linux

package allocation

import "softrdma/internal/reason"

const hugePageFlag = 0

func hugePageSize() (int, error) {
	return 0, reason.NotSupported("huge pages on this system")
}
