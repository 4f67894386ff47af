//go:build !linux

package compare

import (
	"errors"
	"fmt"

	"softrdma/bench/relay"
)

type (
	taps     struct{}
	relayRun struct{}
)

// NewRelay returns an error: relays exist on Linux only.
func NewRelay() (*Relay, error) {
	return nil, fmt.Errorf("network namespaces: %w", errors.ErrUnsupported)
}

// Close does nothing.
func (*Relay) Close() {}

// Start returns an error.
func (*Relay) Start(relay.Config) error { return errors.ErrUnsupported }

// Stop returns an error.
func (*Relay) Stop() (Account, error) { return Account{}, errors.ErrUnsupported }
