package launch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A directoryExchange exchanges values by files in a directory of this host that belongs to
// the job. Open MPI makes the directory and publishes its path. It is used instead of a PMIx
// server of an unknown version.
type directoryExchange struct {
	path       string
	rank, size int
	wait       time.Duration // time limit for the other ranks
}

func (d *directoryExchange) name(rank int) string {
	return filepath.Join(d.path, fmt.Sprintf("softrdma-%d-of-%d", rank, d.size))
}

// Exchange writes the rank's value and waits for all values.
func (d *directoryExchange) Exchange(ctx context.Context, value []byte) ([][]byte, error) {
	draft := d.name(d.rank) + ".new"
	if err := os.WriteFile(draft, value, 0o600); err != nil {
		return nil, err
	}
	if err := os.Rename(draft, d.name(d.rank)); err != nil {
		return nil, err
	}
	values := make([][]byte, d.size)
	for end := time.Now().Add(d.wait); ; {
		missing, err := d.read(values)
		if err != nil || missing == 0 {
			return values, err
		}
		if !time.Now().Before(end) {
			return nil, newMissing(values, d.wait)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// read reads the values that are still nil, and returns the number of missing ones.
func (d *directoryExchange) read(values [][]byte) (missing int, err error) {
	for r := range values {
		if values[r] != nil {
			continue
		}
		switch b, err := os.ReadFile(d.name(r)); {
		case err == nil:
			values[r] = append([]byte{}, b...) // not nil
		case os.IsNotExist(err):
			missing++
		default:
			return missing, err
		}
	}
	return missing, nil
}
