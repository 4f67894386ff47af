//go:build !linux

package live

import (
	"time"

	"softrdma/internal/fabric/subnet"
	"softrdma/internal/management/sm"
	"softrdma/internal/reason"
)

// A Fabric is a subnet that runs. This system has none.
type Fabric struct{}

var errSystem = reason.NotSupported("a fabric runs on Linux only")

// Start fails.
func Start(Config) (*Fabric, error) { return nil, errSystem }

// Close does nothing.
func (f *Fabric) Close() error { return nil }

// Do does nothing.
func (f *Fabric) Do(func(now time.Duration, s *subnet.Subnet, m *sm.Manager)) bool { return false }

// Ask fails.
func (f *Fabric) Ask([]byte) ([]byte, error) { return nil, errSystem }

// Socket returns nothing.
func (f *Fabric) Socket() string { return "" }
