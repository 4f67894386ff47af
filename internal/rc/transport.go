package rc

import (
	"softrdma/internal/machine"
	"softrdma/internal/wire/ib"
)

// Transport describes the reliable connection. The queue pairs of a lane share a
// Store.
var Transport = machine.Transport{
	Opcodes: ib.RC, Connected: true, Acknowledged: true,
	Lane: func(lanes int) machine.Maker {
		store := NewStore(DefaultStore / lanes)
		return func(p *machine.Port, o machine.Options) machine.Machine {
			c := Config{Control: o.Control, KeepReasons: o.KeepReasons}
			if !o.GoBackN {
				c.Store = store
			}
			return New(p, c)
		}
	},
}
