//go:build !linux

package bench

import (
	"errors"
	"fmt"

	"softrdma/bench/relay"
)

type (
	taps     struct{}
	relaying struct{}
)

// NewRelay is for Linux only.
func NewRelay() (*Relay, error) {
	return nil, fmt.Errorf("network namespaces: %w", errors.ErrUnsupported)
}

// Close has nothing to do where there is no relay.
func (*Relay) Close() {}

// Start is for Linux only.
func (*Relay) Start(relay.Config) error { return errors.ErrUnsupported }

// Stop is for Linux only.
func (*Relay) Stop() (Account, error) { return Account{}, errors.ErrUnsupported }
