//go:build !linux

package devices

import "io"

// printDaemons has none to list.
func printDaemons(io.Writer) {}
