package link

import "fmt"

// An MTUError reports a packet that is longer than its path carries: an interface's
// MTU was lowered, or a router reported a smaller one.
type MTUError struct {
	MTU  int   // bytes of an IP packet that the path carries
	Size int   // bytes of the packet with its IP and UDP headers
	Err  error // the system's
}

// Error names both lengths.
func (e *MTUError) Error() string {
	return fmt.Sprintf("packet of %d bytes, the path carries %d: %v", e.Size, e.MTU, e.Err)
}

// Unwrap returns the system's error.
func (e *MTUError) Unwrap() error { return e.Err }
