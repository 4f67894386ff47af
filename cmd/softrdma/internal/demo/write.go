package demo

import (
	"context"

	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/verbs"
)

// write writes the file into the other end's memory. The program there takes no part.
func (d *client) write(ctx context.Context, _ *measure.Message) error {
	err := d.stream(ctx, func(at, n int) verbs.SendWR {
		wr := verbs.SendWR{Op: verbs.OpWrite, SGL: d.local(at, n)}
		d.remote(&wr, at)
		return wr
	})
	if err != nil || d.dev.Protocol() != verbs.IWARP {
		return err
	}
	// RFC 5040 5.5: a WRITE completes when this end no longer needs its memory, even if
	// the data has not arrived. The answer to a READ shows that it has.
	wr := verbs.SendWR{Op: verbs.OpRead, SGL: d.local(d.scratch+scratchSum, 8)}
	d.remote(&wr, d.scratch+scratchSum)
	return d.side.Execute(ctx, wr)
}
