package main

import (
	"context"

	"softrdma/verbs"
)

// write writes the file into the other end's memory. The program there does
// nothing meanwhile.
func (d *demoClient) write(ctx context.Context, _ *controlMessage) error {
	return d.stream(ctx, func(at, n int) verbs.SendWR {
		wr := verbs.SendWR{Op: verbs.OpWrite, SGL: d.local(at, n)}
		d.remote(&wr, at)
		return wr
	})
}
