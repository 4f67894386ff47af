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

// An owner is a service of a file with objects of programs.
type owner interface{ Owner() object.Owner }

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
			if x, ok := x.(owner); ok {
				c := object.Context{Owner: x.Owner()}
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

// describe adds the objects of programs that have a share of a device's address. Of a program that
// does not answer only the context is known.
func (t *slots) describe(d *device.Device, to *object.List) {
	shares := t.on(d)
	for _, x := range shares {
		to.Contexts = append(to.Contexts, object.Context{Owner: x.owner()})
	}
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), answerTime)
	defer cancel()
	for _, l := range ask(ctx, &t.asker, shares, func(x *slot, s control.Socket, i control.Info) (l object.List, err error) {
		err = t.asker.Ask(ctx, s, http.MethodGet, control.DevicePath(i.Name, "objects"), nil, &l)
		l.Owners(func(o *object.Owner) { *o = x.owner() })
		l.Renumber(uint32(x.lane) + 1)
		return l, err
	}) {
		to.Add(l)
	}
}

// objects returns how many objects programs have that have a share of a device's address.
func (t *slots) objects(d *device.Device) (sum object.Counts) {
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), answerTime)
	defer cancel()
	for _, n := range ask(ctx, &t.asker, t.on(d), func(_ *slot, _ control.Socket, i control.Info) (object.Counts, error) { return i.Objects, nil }) {
		sum.Add(n)
	}
	return sum
}

// on returns the shares of a device's address.
func (t *slots) on(d *device.Device) (list []*slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for x := range t.taken {
		if x.device == d {
			list = append(list, x)
		}
	}
	return list
}

// owner is what tools see as the owner of a program's objects.
func (x *slot) owner() object.Owner {
	return object.Owner{PID: x.process.PID, Context: firstShared + uint32(x.lane)}
}

// ask calls f for the programs of some shares at once, each with its control socket and what it says of its
// device, and returns what f returns. Programs that do not answer before the context ends are left out, and not waited for the
// next time.
func ask[T any](ctx stdcontext.Context, a *control.Asker, list []*slot, f func(x *slot, s control.Socket, i control.Info) (T, error)) (answers []T) {
	if len(list) == 0 {
		return nil
	}
	sockets, _ := control.Sockets() // none if programs do not answer
	all := make([]T, len(list))
	for i, err := range control.EachAtOnce(list, func(i int, x *slot) (err error) {
		at := slices.IndexFunc(sockets, func(s control.Socket) bool { return s.PID == x.process.PID })
		if at < 0 {
			return os.ErrNotExist
		}
		var devices []control.Info
		if err := a.Ask(ctx, sockets[at], http.MethodGet, "/v1/devices", nil, &devices); err != nil {
			return err
		}
		guid := x.device.Verbs.Query().NodeGUID.String()
		of := slices.IndexFunc(devices, func(x control.Info) bool { return x.GUID == guid })
		if of < 0 {
			return os.ErrNotExist
		}
		all[i], err = f(x, sockets[at], devices[of])
		return err
	}) {
		if err == nil {
			answers = append(answers, all[i])
		}
	}
	return answers
}
