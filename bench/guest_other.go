//go:build !interop || !linux

package main

import (
	"context"
	"errors"

	"softrdma/bench/compare"
)

func openGuest(context.Context) (*compare.Path, error) {
	return nil, errors.New("--paths guest: bench was built without virtual machines: on Linux and as root, run: go run -tags interop . --paths guest")
}
