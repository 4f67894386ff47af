package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// An echo is what the switches of the path said of the last request. A softrdma peer that takes
// telemetry gets it with an acknowledge.
type echo struct {
	due     bool
	hops    [own.MaxHops]own.Hop
	count   int
	payload [own.TelemetryLen + own.MaxHops*own.HopLen]byte
}

// Inform takes what switches said of a request. An acknowledge for each request is what the
// controls need that take telemetry; if requests arrive faster than acknowledges leave, the last one counts.
func (o *reordering) Inform(in *machine.In) {
	if !in.Telemetry || !o.c.Selective() || !o.c.Trusted || o.store == nil {
		return
	}
	if o.echo == nil {
		o.echo = new(echo)
	}
	e := o.echo
	e.due, e.count = true, copy(e.hops[:], in.Hops)
}

// echoDue reports whether telemetry is owed.
func (o *reordering) echoDue() bool { return o.echo != nil && o.echo.due }

// reportEcho produces the acknowledge with telemetry.
func (o *reordering) reportEcho(out *machine.Out) {
	e := o.echo
	e.due = false
	b := own.AppendDuplicates(e.payload[:0], o.sack.duplicates)
	for i := range e.count {
		b = e.hops[i].Append(b)
	}
	o.header(out, ib.RCTelemetry, o.expected.Add(-1))
	out.AETH = ib.AETH{Syndrome: o.creditCount(), MSN: o.msn}
	out.Pieces, out.Len = append(out.Pieces, b), len(b)
}

// endEcho drops telemetry that is owed.
func (o *reordering) endEcho() {
	if o.echo != nil {
		o.echo.due = false
	}
}
