//go:build !linux

package hostmem

// Bells wake a lane. They exist only on Linux.
type Bells struct{}

// A Bell lets one peer wake a lane. It exists only on Linux.
type Bell struct{}

// NewBells fails.
func NewBells() (*Bells, error) { return nil, errSystem }

// FD returns -1.
func (b *Bells) FD() int { return -1 }

// Add fails.
func (b *Bells) Add(owner any) (*Bell, error) { return nil, errSystem }

// Rung does nothing.
func (b *Bells) Rung(f func(owner any)) {}

// Close does nothing.
func (b *Bells) Close() {}

// FD returns -1.
func (x *Bell) FD() int { return -1 }

// Close does nothing.
func (x *Bell) Close() {}
