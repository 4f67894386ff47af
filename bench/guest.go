//go:build interop && linux

package main

import (
	"context"

	"softrdma/bench/compare"
	"softrdma/interop/lab"
)

// openGuest boots one virtual machine of the lab.
func openGuest(ctx context.Context) (*compare.Path, error) {
	l, err := lab.Open(ctx, 1, lab.BenchProcessor)
	if err != nil {
		return nil, err
	}
	return compare.Guest(guest{l.Guests[0]}, func() { l.Close(false) }), nil
}

// A guest implements compare.Machine.
type guest struct{ *lab.Guest }

// Serve implements compare.Machine.
func (g guest) Serve(ctx context.Context, ready string, argv ...string) (func(), error) {
	p, err := g.Start(ctx, argv...)
	if err != nil {
		return nil, err
	}
	stop := func() { p.Kill() }
	if err := p.WaitOutput(ctx, ready); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// Run implements compare.Machine.
func (g guest) Run(ctx context.Context, argv ...string) ([]byte, error) {
	out, err := g.Guest.Run(ctx, argv...)
	return []byte(out.Stdout), err
}
