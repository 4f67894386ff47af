//go:build !linux

package tap

import (
	"context"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/reason"
)

// Run fails.
func Run(context.Context, string, string, bool, func(*attach.Info)) error {
	return reason.NotSupported("a tap device of a fabric: expected Linux")
}
