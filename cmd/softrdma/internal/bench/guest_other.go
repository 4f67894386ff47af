//go:build !interop || !linux

package bench

import (
	"context"
	"errors"

	"softrdma/bench"
)

func openGuest(context.Context) (*bench.Path, error) {
	return nil, errors.New("--paths guest: this softrdma was built without virtual machines: in the source tree, on Linux and as root, run: go run -tags interop ./cmd/softrdma bench --paths guest")
}
