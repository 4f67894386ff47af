//go:build !linux

package loop

import (
	"errors"
	"fmt"
)

func CheckUDP() error {
	return fmt.Errorf("segmentation offload of UDP sockets: %w", errors.ErrUnsupported)
}

func newUDPEnd(*Config) (end, error) { return nil, CheckUDP() }
