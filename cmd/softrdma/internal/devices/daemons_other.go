//go:build !linux

package devices

import (
	"context"
	"io"
)

// printDaemons prints nothing, because daemons exist only on Linux.
func printDaemons(context.Context, io.Writer) {}

// programName returns nothing, because fabrics exist only on Linux.
func programName(int) string { return "" }
