package uc

import (
	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/wire/ib"
)

// Transport describes the unreliable connection. It only learns of congestion by
// notifications, so DCQCN stands for every control that obeys marks.
var Transport = machine.Transport{
	Opcodes: ib.UC, Connected: true,
	Lane: func(int) machine.Maker {
		return func(p *machine.Port, o machine.Options) machine.Machine {
			control := congestion.None
			if o.Control.ECN() {
				control = congestion.DCQCN
			}
			return New(p, control)
		}
	},
}
