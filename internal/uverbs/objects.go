//go:build linux

package uverbs

import (
	stdcontext "context"
	"net/http"
	"os"
	"slices"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/control"
	"softrdma/internal/object"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/device"
)

// A describer is a service of a file with objects of programs.
type describer interface{ Describe() object.Context }

// ownObjects describes the objects that this process has on a device, for users whom allow returns
// true for, and the ids of all programs.
func (s *Server) ownObjects(d *device.Device, allow func(uid uint32) bool) object.List {
	l := adapter.ObjectsOf(d.Adapter)
	seen := make(map[uint32]bool) // contexts
	if allow(uint32(os.Geteuid())) {
		seen[0] = true // the objects of this process itself
	}
	for _, f := range s.files.All() {
		if f.Name != d.FileName() || !allow(f.UID()) {
			continue
		}
		f.Inspect(func(x client.Service) {
			if x, ok := x.(describer); ok {
				c := x.Describe()
				l.Contexts, seen[c.Context] = append(l.Contexts, c), true
			}
		})
	}
	hidden := func(o object.Owner) bool { return !seen[o.Context] }
	l.PDs = slices.DeleteFunc(l.PDs, func(x object.PD) bool { return hidden(x.Owner) })
	l.CQs = slices.DeleteFunc(l.CQs, func(x object.CQ) bool { return hidden(x.Owner) })
	l.SRQs = slices.DeleteFunc(l.SRQs, func(x object.SRQ) bool { return hidden(x.Owner) })
	l.QPs = slices.DeleteFunc(l.QPs, func(x object.QP) bool { return hidden(x.Owner) })
	l.MRs = slices.DeleteFunc(l.MRs, func(x object.Region) bool { return hidden(x.Owner) })
	l.Owners(func(o *object.Owner) {
		if o.PID == 0 {
			o.PID = os.Getpid()
		}
	})
	l.IDs = s.connections.Describe(d, allow)
	l.Sort()
	return l
}

// objects is ownObjects with those of programs that have a share of the device's address.
func (s *Server) objects(d *device.Device, allow func(uid uint32) bool) *object.List {
	l := s.ownObjects(d, allow)
	if allow(uint32(os.Geteuid())) { // no other users have shares
		s.slots.describe(d, &l)
	}
	l.Sort()
	return &l
}

const (
	// firstShared is the number of the context of the first share of an address. Programs with the
	// server's engine have lower numbers.
	firstShared = 1 << 10

	// answerTime bounds how long a program has to say what objects it has.
	answerTime = time.Second
)

// describe adds the objects of programs that have a share of a device's address. They say what they
// have by their control sockets. Of a program that does not answer only the context is known.
func (t *slots) describe(d *device.Device, to *object.List) {
	t.mu.Lock()
	var taken []*slot
	for x := range t.taken {
		if x.device == d {
			taken = append(taken, x)
		}
	}
	t.mu.Unlock()
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), answerTime)
	defer cancel()
	sockets, _ := control.Sockets() // none if programs do not answer
	for _, x := range taken {
		pid := x.process.PID
		context := firstShared + uint32(x.lane)
		to.Contexts = append(to.Contexts, object.Context{Owner: object.Owner{PID: pid, Context: context}})
		i := slices.IndexFunc(sockets, func(s control.Socket) bool { return s.PID == pid })
		if i < 0 {
			continue
		}
		l, err := objectsOf(ctx, sockets[i], d)
		if err != nil {
			continue
		}
		l.Owners(func(o *object.Owner) { o.PID, o.Context = pid, context })
		l.Renumber(uint32(x.lane) + 1)
		to.Add(l)
	}
}

// objectsOf asks a process for the objects on its share of a device's address.
func objectsOf(ctx stdcontext.Context, s control.Socket, d *device.Device) (l object.List, err error) {
	var all []control.Info
	if err := s.Ask(ctx, http.MethodGet, "/v1/devices", nil, &all); err != nil {
		return l, err
	}
	guid := d.Verbs.Query().NodeGUID.String()
	i := slices.IndexFunc(all, func(x control.Info) bool { return x.GUID == guid })
	if i < 0 {
		return l, nil
	}
	return l, s.Ask(ctx, http.MethodGet, "/v1/devices/"+all[i].Name+"/objects", nil, &l)
}
