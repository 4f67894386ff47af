//go:build linux

package uverbs

import (
	"softrdma/internal/object"
	"softrdma/internal/reason"
	"softrdma/internal/trace"
	"softrdma/verbs"
)

// Counted returns the name of a device of the server, "" for other devices, and what the programs that
// have it in their own process have counted there, those that have ended included. Objects asks them how
// many objects they have.
func (s *Server) Counted(v *verbs.Device) (name string, reasons map[reason.Reason]uint64, t trace.Traffic, objects func() object.Counts) {
	for _, d := range s.devices {
		if d.Verbs != v {
			continue
		}
		c := s.slots.counted(d)
		reasons = make(map[reason.Reason]uint64)
		for r, n := range c.reasons {
			if n != 0 {
				reasons[reason.Reason(r)] = n
			}
		}
		return d.Name, reasons, c.traffic, func() object.Counts { return s.slots.objects(d) }
	}
	return "", nil, t, nil
}
