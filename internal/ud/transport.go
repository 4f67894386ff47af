package ud

import (
	"softrdma/internal/machine"
	"softrdma/internal/wire/ib"
)

// Transport describes the unreliable datagram.
var Transport = machine.Transport{
	Opcodes: ib.UD,
	Lane: func(int) machine.Maker {
		return func(p *machine.Port, _ machine.Options) machine.Machine { return New(p) }
	},
}
