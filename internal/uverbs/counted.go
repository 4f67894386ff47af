//go:build linux

package uverbs

import (
	stdcontext "context"
	"net/http"

	"softrdma/internal/control"
	"softrdma/internal/exporter"
	"softrdma/internal/object"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/device"
	"softrdma/verbs"
)

// Counted returns what the programs that have a device of the server in their own process have counted
// there, those that have ended included. Its name is "" for other devices.
func (s *Server) Counted(v *verbs.Device) exporter.Counted {
	for _, d := range s.devices {
		if d.Verbs != v {
			continue
		}
		c := s.slots.counted(d)
		reasons := make(map[reason.Reason]uint64)
		for r, n := range c.reasons {
			if n != 0 {
				reasons[reason.Reason(r)] = n
			}
		}
		return exporter.Counted{
			Name: d.Name, Reasons: reasons, Traffic: c.traffic,
			Objects: func() object.Counts { return s.slots.objects(d) },
			Samples: func() []object.Sample { return s.slots.samples(d) },
		}
	}
	return exporter.Counted{}
}

// samples returns what programs have measured that have a share of a device's address.
func (t *slots) samples(d *device.Device) []object.Sample {
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), answerTime)
	defer cancel()
	return ask(ctx, &t.asker, t.on(d), func(_ *slot, s control.Socket, i control.Info) (x object.Sample, err error) {
		err = t.asker.Ask(ctx, s, http.MethodGet, control.DevicePath(i.Name, "sample"), nil, &x)
		return x, err
	})
}
