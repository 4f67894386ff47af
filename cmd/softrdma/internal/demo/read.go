package demo

import (
	"context"

	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/verbs"
)

// read reads the file back from the other end's memory, where WRITE left it. The
// program there takes no part.
func (d *client) read(ctx context.Context, _ *measure.Message) error {
	return d.stream(ctx, func(at, n int) verbs.SendWR {
		wr := verbs.SendWR{Op: verbs.OpRead, SGL: d.local(at, n)}
		d.remote(&wr, at)
		return wr
	})
}
