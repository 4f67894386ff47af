//go:build !linux

package block

import "os"

const directFlag = 0

// zeroRange reports that the system has no call that makes zeros.
func zeroRange(*os.File, int64, int64, bool) (bool, error) { return false, nil }

// release does nothing, as the system has no call that takes memory back.
func release([]byte) {}
