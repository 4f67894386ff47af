package host

import (
	"context"
	"fmt"

	"softrdma/storage/nvmeof/auth"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/logpage"
)

// authenticate authenticates the host on a queue, after the connect command with a result. It does
// nothing if the controller does not ask for that.
func (q *queue) authenticate(ctx context.Context, cfg *Config, result uint64) error {
	switch {
	case result&fabrics.ConnectAuthRequired == 0 && !cfg.Secrets.Controller.IsZero() && cfg.Subsystem != logpage.DiscoveryNQN:
		return fmt.Errorf("queue %d: expected a controller that proves its identity, found one that does not authenticate", q.number)
	case result&fabrics.ConnectAuthRequired == 0:
		return nil
	case cfg.Secrets.Host.IsZero():
		return fmt.Errorf("queue %d: the controller expects a secret, and the host has none", q.number)
	}
	err := auth.Authenticate(auth.Names{Host: cfg.Host, Subsystem: cfg.Subsystem}, cfg.Secrets, func(cmd capsule.Command, data []byte) error {
		_, err := q.do(ctx, cmd, data)
		return err
	})
	if err != nil {
		return fmt.Errorf("queue %d: %w", q.number, err)
	}
	return nil
}
