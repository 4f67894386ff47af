//go:build !linux

package bench

import (
	"errors"
	"fmt"
)

func lackUDP() error {
	return fmt.Errorf("segmentation offload of UDP sockets: %w", errors.ErrUnsupported)
}

func newUDPEnd(*EndConfig) (end, error) { return nil, lackUDP() }
