package launch

import (
	"context"
	"errors"
	"fmt"

	"softrdma/internal/pmix"
)

// A pmixBoard keeps values at the PMIx servers of the job's hosts.
type pmixBoard struct {
	server *pmix.Server
	size   int
	client *pmix.Client       // created by the first share
	other  *directoryExchange // if the server refuses, or nil on several hosts
}

// connectPMIx prepares an exchange through the PMIx server that has started this program. If
// its version is unknown, ranks of one host exchange values in the directory of the job.
func (j *Job) connectPMIx(get func(string) string) error {
	var other *directoryExchange
	if directory := get("PMIX_SERVER_TMPDIR"); directory != "" && j.LocalSize == j.Size {
		other = &directoryExchange{directory, j.Rank, j.Size, DefaultWait}
		j.ID = directory
	}
	server, err := pmix.FromEnvironment(get)
	if err == nil && int(server.Rank) != j.Rank {
		err = fmt.Errorf("launch: PMIX_RANK is %d, expected %d as other variables say", server.Rank, j.Rank)
	}
	switch {
	case err == nil:
		if other == nil {
			j.ID = server.Namespace
		}
		j.board = &pmixBoard{server: server, size: j.Size, other: other}
		return nil
	case other != nil:
		j.exchange = other.Exchange
		return nil
	}
	advice := fmt.Sprintf("set %s to a free HOST:PORT of the host of rank 0, and %s to 32 random hexadecimal digits, for all ranks", EnvExchange, EnvSecret)
	if errors.Is(err, pmix.ErrAbsent) {
		return fmt.Errorf("launch: rank %d has no way to exchange addresses: %s", j.Rank, advice)
	}
	return fmt.Errorf("launch: rank %d cannot exchange addresses: %w; %s", j.Rank, err, advice)
}

func (b *pmixBoard) share(ctx context.Context, key string, value []byte) ([][]byte, error) {
	if b.client == nil {
		c, err := b.server.Connect(ctx)
		if errors.Is(err, pmix.ErrRefused) && b.other != nil {
			return b.other.Exchange(ctx, value)
		}
		if err != nil {
			return nil, err
		}
		b.client = c
	}
	key = "softrdma-" + key
	if err := b.client.Commit(key, value); err != nil {
		return nil, fmt.Errorf("commit of %s: %w", key, err)
	}
	if err := b.client.Fence(); err != nil {
		return nil, fmt.Errorf("fence of %s: %w", key, err)
	}
	values := make([][]byte, b.size)
	for r := range values {
		v, err := b.client.Get(uint32(r), key)
		if err != nil {
			return nil, fmt.Errorf("%s of rank %d: %w", key, r, err)
		}
		values[r] = v
	}
	return values, nil
}

func (b *pmixBoard) leave() error {
	if b.client == nil {
		return nil // the server has refused
	}
	c := b.client
	b.client = nil
	return c.Finalize()
}

func (b *pmixBoard) close() {
	if b.client != nil {
		_ = b.client.Close()
		b.client = nil
	}
}
