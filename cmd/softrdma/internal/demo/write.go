package demo

import (
	"context"

	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/verbs"
)

// write writes the file into the other end's memory. The program there does
// nothing meanwhile.
func (d *client) write(ctx context.Context, _ *measure.Message) error {
	err := d.stream(ctx, func(at, n int) verbs.SendWR {
		wr := verbs.SendWR{Op: verbs.OpWrite, SGL: d.local(at, n)}
		d.remote(&wr, at)
		return wr
	})
	if err != nil || d.dev.Protocol() != verbs.IWARP {
		return err
	}
	// RFC 5040 5.5: a WRITE completes when this end needs its memory no more,
	// wherever the data is. The answer to a READ tells that it is in its place.
	wr := verbs.SendWR{Op: verbs.OpRead, SGL: d.local(d.scratch+scratchSum, 8)}
	d.remote(&wr, d.scratch+scratchSum)
	return d.side.Execute(ctx, wr)
}
