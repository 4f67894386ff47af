package link

import "fmt"

// An MTUError reports a packet that exceeds the MTU of its path: an interface's MTU was
// lowered, or a router reported a smaller one.
type MTUError struct {
	MTU  int   // largest IP packet of the path in bytes
	Size int   // size of the packet in bytes, with IP and UDP headers
	Err  error // system error
}

// Error contains both lengths.
func (e *MTUError) Error() string {
	return fmt.Sprintf("packet of %d bytes, the path carries %d: %v", e.Size, e.MTU, e.Err)
}

// Unwrap returns the system's error.
func (e *MTUError) Unwrap() error { return e.Err }
