//go:build !linux

package hostmem

// Bells wake a lane. This system has none.
type Bells struct{}

// A Bell is what one peer rings to wake a lane. This system has none.
type Bell struct{}

// NewBells fails.
func NewBells() (*Bells, error) { return nil, errSystem }

// FD returns no descriptor.
func (b *Bells) FD() int { return -1 }

// Add fails.
func (b *Bells) Add(owner any) (*Bell, error) { return nil, errSystem }

// Rung does nothing.
func (b *Bells) Rung(f func(owner any)) {}

// Close does nothing.
func (b *Bells) Close() {}

// FD returns no descriptor.
func (x *Bell) FD() int { return -1 }

// Close does nothing.
func (x *Bell) Close() {}
