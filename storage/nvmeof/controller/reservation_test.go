package controller

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/identify"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/reserve"
	"softrdma/storage/nvmeof/wire/status"
)

// A party is a host that shares a namespace with others: its admin queue and an I/O queue.
type party struct {
	admin, io *end
	key       uint64
}

// party connects a host, which its key names.
func (r *rig) party(key uint64) *party {
	r.t.Helper()
	p := &party{admin: r.queue(0), io: r.queue(1), key: key}
	data := func(controller uint16) []byte {
		d := fabrics.ConnectData{HostID: [16]byte{1: byte(key)}, Controller: controller, Subsystem: nqn, Host: host}
		return d.Append(nil)
	}
	id, _ := p.admin.must(fabrics.Connect{QueueSize: 15}.Command(), data(fabrics.AnyController))
	p.admin.must(fabrics.PropertyAccess{Property: fabrics.PropertyCC, Value: uint64(fabrics.EnabledConfiguration)}.Command(true), nil)
	p.io.must(fabrics.Connect{Queue: 1, QueueSize: 15}.Command(), data(uint16(id)))
	return p
}

// reserve runs a reservation command with two keys.
func (p *party) reserve(o capsule.Opcode, f reserve.ReservationFields, keys ...uint64) status.Status {
	p.io.t.Helper()
	b := make([]byte, 16)
	for i, k := range keys {
		binary.LittleEndian.PutUint64(b[8*i:], k)
	}
	if o == capsule.ReservationRelease {
		b = b[:8]
	}
	done, _, c := p.io.run(f.Command(o, 1), b)
	if (done.Status == status.Success) != (c.Refusal == nil) || c.Refusal != nil && strings.Contains(c.Refusal.Error(), "%!") {
		p.io.t.Errorf("%v: %v, %v", o, done.Status, c.Refusal)
	}
	return done.Status.Code()
}

func (p *party) register() status.Status {
	return p.reserve(capsule.ReservationRegister, reserve.ReservationFields{Action: reserve.RegisterKey}, 0, p.key)
}

func (p *party) unregister() status.Status {
	return p.reserve(capsule.ReservationRegister, reserve.ReservationFields{Action: reserve.UnregisterKey}, p.key)
}

func (p *party) acquire(kind reserve.ReservationType) status.Status {
	return p.reserve(capsule.ReservationAcquire, reserve.ReservationFields{Type: kind}, p.key)
}

func (p *party) preempt(key uint64, kind reserve.ReservationType) status.Status {
	return p.reserve(capsule.ReservationAcquire, reserve.ReservationFields{Action: reserve.PreemptReservation, Type: kind}, p.key, key)
}

func (p *party) release(kind reserve.ReservationType) status.Status {
	return p.reserve(capsule.ReservationRelease, reserve.ReservationFields{Type: kind}, p.key)
}

func (p *party) clear() status.Status {
	return p.reserve(capsule.ReservationRelease, reserve.ReservationFields{Action: reserve.ClearReservations}, p.key)
}

// access returns what the host may do: "rw", "r", or nothing.
func (p *party) access() (may string) {
	p.io.t.Helper()
	try := func(cmd capsule.Command, length int) bool {
		done, _, c := p.io.run(cmd, make([]byte, length))
		if c.Refusal != nil && (done.Status.Code() != status.ReservationConflict || c.Refusal.Why != ReservationConflict) {
			p.io.t.Fatalf("%v, %v", done.Status, c.Refusal)
		}
		return c.Refusal == nil
	}
	read, write := try(blocks(capsule.Read, 1, 0, 1), 512), try(blocks(capsule.Write, 1, 0, 1), 512)
	if compare := try(blocks(capsule.Compare, 1, 0, 1), 512); compare != read {
		p.io.t.Errorf("compare %v, read %v", compare, read)
	}
	trim := capsule.Command{Opcode: capsule.DatasetManagement, NSID: 1, CDW11: capsule.DSMDeallocate}
	for name, ok := range map[string]bool{
		"flush": try(blocks(capsule.Flush, 1, 0, 1), 0), "zeros": try(blocks(capsule.WriteZeroes, 1, 0, 1), 0), "trim": try(trim, capsule.RangeLen),
	} {
		if ok != write {
			p.io.t.Errorf("%s %v, write %v", name, ok, write)
		}
	}
	if read {
		may += "r"
	}
	if write {
		may += "w"
	}
	return may
}

// holders returns the type of the reservation, and a text with the keys of registrants, those of holders with *.
func (p *party) holders() (kind reserve.ReservationType, text string) {
	p.io.t.Helper()
	b := make([]byte, 64+3*64)
	report := capsule.Command{Opcode: capsule.ReservationReport, NSID: 1, CDW10: uint32(len(b)/4 - 1), CDW11: 1}
	_, b = p.io.must(report, b)
	for i := range int(binary.LittleEndian.Uint16(b[5:])) {
		x := b[64+64*i:]
		text += fmt.Sprint(" ", binary.LittleEndian.Uint64(x[8:]))
		if x[2] == 1 {
			text += "*"
		}
		if x[17] != x[8] && p.key < 256 { // the identifier of the host
			p.io.t.Errorf("registrant %x", x[:64])
		}
	}
	return reserve.ReservationType(b[4]), strings.TrimSpace(text)
}

func (p *party) holds(want string, kind reserve.ReservationType) {
	p.io.t.Helper()
	if found, text := p.holders(); found != kind || text != want {
		p.io.t.Errorf("expected type %d of %s, found type %d of %s", kind, want, found, text)
	}
}

// TestTypesOfReservationsDecideAccess: base 2.0, figure 106.
func TestTypesOfReservationsDecideAccess(t *testing.T) {
	for kind, want := range map[reserve.ReservationType][3]string{ // of the holder, a registrant, and another host
		reserve.WriteExclusive:                {"rw", "r", "r"},
		reserve.ExclusiveAccess:               {"rw", "", ""},
		reserve.WriteExclusiveRegistrants:     {"rw", "rw", "r"},
		reserve.ExclusiveAccessRegistrants:    {"rw", "rw", ""},
		reserve.WriteExclusiveAllRegistrants:  {"rw", "rw", "r"},
		reserve.ExclusiveAccessAllRegistrants: {"rw", "rw", ""},
	} {
		r := newRig(t)
		holder, registrant, other := r.party(1), r.party(2), r.party(3)
		for i, p := range []*party{holder, registrant, other} {
			if may := p.access(); may != "rw" {
				t.Errorf("host %d without a reservation: %s", i, may)
			}
		}
		if s := holder.acquire(kind); s != status.ReservationConflict {
			t.Errorf("acquire of a host that is not registered: %v", s)
		}
		if a, b := holder.register(), registrant.register(); a != 0 || b != 0 {
			t.Fatal(a, b)
		}
		if a, b := holder.acquire(kind), holder.acquire(kind); a != 0 || b != 0 {
			t.Errorf("acquire, and again: %v, %v", a, b)
		}
		if s := holder.acquire(kind%6 + 1); s != status.ReservationConflict {
			t.Errorf("acquire of another type: %v", s)
		}
		// All registrants hold a reservation of the last types.
		if s := registrant.acquire(kind); (s == status.Success) != kind.AllHold() {
			t.Errorf("type %d: acquire of another registrant: %v", kind, s)
		}
		for i, p := range []*party{holder, registrant, other} {
			if may := p.access(); may != want[i] {
				t.Errorf("type %d, host %d: expected %q, found %q", kind, i, want[i], may)
			}
		}
		text := "1* 2"
		if kind.AllHold() {
			text = "1* 2*"
		}
		other.holds(text, kind)
		if s := holder.release(kind%6 + 1); s != status.ReservationConflict {
			t.Errorf("release of another type: %v", s)
		}
		if s := holder.release(kind); s != 0 {
			t.Error(s)
		}
		holder.holds("1 2", 0)
		if a, b := holder.acquire(kind), holder.unregister(); a != 0 || b != 0 {
			t.Error(a, b)
		}
		if kind.AllHold() {
			other.holds("2*", kind)
		} else {
			other.holds("2", 0)
		}
		if s := registrant.unregister(); s != 0 {
			t.Error(s)
		}
		other.holds("", 0)
	}
}

func TestKeysOfReservations(t *testing.T) {
	r := newRig(t)
	a, b := r.party(1), r.party(2)
	replace := reserve.ReservationFields{Action: reserve.ReplaceKey}
	for i, x := range []struct{ found, want status.Status }{
		{a.unregister(), status.ReservationConflict},
		{a.register(), 0},
		{a.register(), 0}, // again
		{a.reserve(capsule.ReservationRegister, reserve.ReservationFields{}, 0, 9), status.ReservationConflict},
		{a.reserve(capsule.ReservationRegister, replace, 9, 7), status.ReservationConflict},
		{b.reserve(capsule.ReservationRegister, replace, 2, 7), status.ReservationConflict},
		{a.reserve(capsule.ReservationRegister, replace, 1, 7), 0},
		{a.acquire(reserve.WriteExclusive), status.ReservationConflict}, // with the old key
		{a.reserve(capsule.ReservationRegister, reserve.ReservationFields{Action: reserve.ReplaceKey, IgnoreKey: true}, 0, 1), 0},
		{a.acquire(reserve.WriteExclusive), 0},
		{b.release(reserve.WriteExclusive), status.ReservationConflict},
		{b.register(), 0},
		{b.release(reserve.WriteExclusive), 0}, // of a registrant that is not the holder: nothing happens
		{a.acquire(0), status.InvalidField},
		{a.acquire(7), status.InvalidField},
		{a.reserve(capsule.ReservationAcquire, reserve.ReservationFields{IgnoreKey: true, Type: 1}, 1), status.InvalidField},
		{a.reserve(capsule.ReservationAcquire, reserve.ReservationFields{Action: reserve.PreemptAbortReservation, Type: 1}, 1, 2), status.InvalidField},
		{a.reserve(capsule.ReservationRelease, reserve.ReservationFields{IgnoreKey: true, Type: 1}, 1), status.InvalidField},
		{a.reserve(capsule.ReservationRelease, reserve.ReservationFields{Action: 2}, 1), status.InvalidField},
		{a.reserve(capsule.ReservationRegister, reserve.ReservationFields{Action: 3}, 1), status.InvalidField},
	} {
		if x.found != x.want {
			t.Errorf("%d: expected %v, found %v", i, x.want, x.found)
		}
	}
	a.holds("1* 2", reserve.WriteExclusive)
	short := capsule.Command{Opcode: capsule.ReservationReport, NSID: 1, CDW10: 15}
	if done, _, _ := a.io.run(short, make([]byte, 64)); done.Status.Code() != status.HostIDFormat {
		t.Errorf("a report with short identifiers: %v", done.Status)
	}
	// Reservations belong to hosts, and not to their connections.
	a.admin.End()
	a.io.Close()
	a.admin.Close()
	if may := b.access(); may != "r" {
		t.Errorf("after the end of the holder's controller: %q", may)
	}
	a = r.party(1)
	if may := a.access(); may != "rw" {
		t.Errorf("the holder with another controller: %q", may)
	}
	// Linux of some versions describes 16 bytes for a release.
	cmd := reserve.ReservationFields{Type: reserve.WriteExclusive}.Command(capsule.ReservationRelease, 1)
	cmd.SGL = capsule.KeyedSGL(1, 1, 16, false)
	a.io.must(cmd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	a.holds("1 2", 0)
}

func TestReservationsArePreempted(t *testing.T) {
	for name, x := range map[string]struct {
		held   reserve.ReservationType // by host 1; 0: none
		key    uint64                  // that host 2 preempts
		status status.Status
		kind   reserve.ReservationType // afterwards
		want   string
	}{
		"the holder":                        {reserve.WriteExclusive, 1, 0, reserve.ExclusiveAccess, "2* 3"},
		"another registrant":                {reserve.WriteExclusive, 3, 0, reserve.WriteExclusive, "1* 2"},
		"oneself":                           {reserve.WriteExclusive, 2, 0, reserve.WriteExclusive, "1* 3"},
		"nobody":                            {reserve.WriteExclusive, 9, status.ReservationConflict, reserve.WriteExclusive, "1* 2 3"},
		"no key":                            {reserve.WriteExclusive, 0, status.InvalidField, reserve.WriteExclusive, "1* 2 3"},
		"a registrant without a holder":     {0, 3, 0, 0, "1 2"},
		"nobody without a holder":           {0, 9, status.ReservationConflict, 0, "1 2 3"},
		"all of a reservation of all":       {reserve.WriteExclusiveAllRegistrants, 0, 0, reserve.ExclusiveAccess, "2*"},
		"one of a reservation of all":       {reserve.WriteExclusiveAllRegistrants, 1, 0, reserve.WriteExclusiveAllRegistrants, "2* 3*"},
		"the holder of a registrants' type": {reserve.ExclusiveAccessRegistrants, 1, 0, reserve.ExclusiveAccess, "2* 3"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a, b, c := r.party(1), r.party(2), r.party(3)
			for _, p := range []*party{a, b, c} {
				p.register()
			}
			if x.held != 0 {
				if s := a.acquire(x.held); s != 0 {
					t.Fatal(s)
				}
			}
			if s := b.preempt(x.key, reserve.ExclusiveAccess); s != x.status {
				t.Errorf("expected %v, found %v", x.status, s)
			}
			b.holds(x.want, x.kind)
		})
	}
}

func TestHostsAreToldOfReservations(t *testing.T) {
	r := newRig(t)
	a, b, c := r.party(1), r.party(2), r.party(3)
	for _, p := range []*party{a, b, c} {
		p.register()
		p.admin.run(capsule.Command{Opcode: capsule.AdminAsyncEvent}, nil)
	}
	told := func(p *party, kinds ...logpage.ReservationNotice) {
		t.Helper()
		for i, kind := range kinds {
			if len(p.admin.held) == 0 || p.admin.held[0].Result != uint64(logpage.EventReservation) {
				t.Fatalf("notice %d: found events %+v", i, p.admin.held)
			}
			p.admin.held = nil
			p.admin.run(capsule.Command{Opcode: capsule.AdminAsyncEvent}, nil)
			_, data := p.admin.must(logpage.Command(logpage.Reservations, 0, 64), make([]byte, 64))
			e, err := logpage.ParseReservationEntry(data)
			if err != nil || e.Kind != kind || e.NSID != 1 || int(e.More) != len(kinds)-1-i {
				t.Errorf("expected notice %d, found %+v, %v", kind, e, err)
			}
		}
		if len(p.admin.held) != 0 {
			t.Errorf("found more events: %+v", p.admin.held)
		}
	}
	a.acquire(reserve.WriteExclusiveRegistrants)
	a.release(reserve.WriteExclusiveRegistrants)
	told(a)
	told(b, logpage.ReservationReleased)
	told(c, logpage.ReservationReleased)
	a.acquire(reserve.WriteExclusive)
	c.preempt(1, reserve.WriteExclusive)
	told(a, logpage.RegistrationPreempted)
	told(b)
	b.admin.must(capsule.Command{Opcode: capsule.AdminSetFeatures, NSID: 1, CDW10: uint32(capsule.FeatureReservations), CDW11: 1 << logpage.ReservationReleased}, nil)
	if mask, _ := b.admin.must(capsule.Command{Opcode: capsule.AdminGetFeatures, NSID: 1, CDW10: uint32(capsule.FeatureReservations)}, nil); mask != 1<<logpage.ReservationReleased {
		t.Errorf("the mask is %#x", mask)
	}
	c.preempt(3, reserve.WriteExclusiveRegistrants) // its own reservation, of another type
	told(b)
	c.clear()
	told(b, logpage.ReservationPreempted)
	told(c)
	c.holds("", 0)
	_, data := c.admin.must(logpage.Command(logpage.Reservations, 0, 64), make([]byte, 64))
	if e, err := logpage.ParseReservationEntry(data); err != nil || e != (logpage.ReservationEntry{}) {
		t.Errorf("without notices: %+v, %v", e, err)
	}
	// A host that does not read its log page misses notices, which their numbers show.
	for range maxNotices + 5 {
		b.register()
		c.register()
		c.acquire(reserve.WriteExclusive)
		c.clear()
	}
	_, data = b.admin.must(logpage.Command(logpage.Reservations, 0, 64), make([]byte, 64))
	if e, err := logpage.ParseReservationEntry(data); err != nil || int(e.More) != maxNotices-1 {
		t.Errorf("found %+v, %v", e, err)
	}
}

// TestHostsWithoutIdentifierAreNotOne: base 2.0, 5.27.1.25. party names hosts by their keys: that of 256 is zero.
func TestHostsWithoutIdentifierAreNotOne(t *testing.T) {
	for name, end := range map[string]func(*party){
		"end":   func(p *party) { p.admin.End(); p.io.Close(); p.admin.Close() },
		"reset": func(p *party) { p.admin.must(fabrics.PropertyAccess{Property: fabrics.PropertyCC}.Command(true), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a, b, c := r.party(256), r.party(256), r.party(1)
			b.key = 257
			c.admin.run(capsule.Command{Opcode: capsule.AdminAsyncEvent}, nil)
			for _, p := range []*party{a, b, c} {
				if s := p.register(); s != 0 {
					t.Fatal(s)
				}
			}
			if s := a.acquire(reserve.ExclusiveAccessRegistrants); s != 0 {
				t.Fatal(s)
			}
			if s := b.acquire(reserve.ExclusiveAccessRegistrants); s != status.ReservationConflict {
				t.Errorf("acquire of another host without an identifier: %v", s)
			}
			if s := b.unregister(); s != 0 {
				t.Error(s)
			}
			if x, y, z := a.access(), b.access(), c.access(); x != "rw" || y != "" || z != "rw" {
				t.Errorf("found %q, %q, %q", x, y, z)
			}
			end(a)
			c.holds("1", 0)
			if len(c.admin.held) != 1 || c.admin.held[0].Result != uint64(logpage.EventReservation) {
				t.Errorf("found events %+v", c.admin.held)
			}
			if may := b.access(); may != "rw" {
				t.Errorf("after the end of the holder: %q", may)
			}
		})
	}
}

// TestCommandsOfEndedControllersReserveNothing: commands whose data is still on its way execute after the end.
func TestCommandsOfEndedControllersReserveNothing(t *testing.T) {
	for name, end := range map[string]func(*party){
		"end":   func(p *party) { p.admin.End() },
		"reset": func(p *party) { p.admin.must(fabrics.PropertyAccess{Property: fabrics.PropertyCC}.Command(true), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a, b := r.party(256), r.party(1)
			keys := make([]byte, 16)
			binary.LittleEndian.PutUint64(keys[8:], a.key)
			cmd := reserve.ReservationFields{Action: reserve.RegisterKey}.Command(capsule.ReservationRegister, 1)
			cmd.ID, cmd.Flags, cmd.SGL = 99, capsule.FlagSGL, capsule.KeyedSGL(0x1000, 7, uint32(len(keys)), false)
			c := new(Command)
			if err := a.io.Begin(a.io.now, c, cmd.Append(nil)); err != nil || c.State != Begun {
				t.Fatal(err, c.State)
			}
			end(a)
			if done, _, _ := a.io.go1(c, keys); done.Status == status.Success {
				t.Error("the command succeeded")
			}
			b.holds("", 0)
		})
	}
}

func TestRefusedReadsOfLogPagesRemoveNothing(t *testing.T) {
	r := newRig(t)
	a, b := r.party(1), r.party(2)
	a.register()
	b.register()
	a.acquire(reserve.WriteExclusive)
	b.preempt(1, reserve.WriteExclusive)
	beyond := logpage.Command(logpage.Reservations, 0, 64)
	beyond.CDW12 = 68
	if done, _, _ := a.admin.run(beyond, make([]byte, 64)); done.Status.Code() != status.InvalidField {
		t.Errorf("found %v", done.Status)
	}
	for _, want := range []logpage.ReservationNotice{logpage.RegistrationPreempted, 0} {
		_, data := a.admin.must(logpage.Command(logpage.Reservations, 0, 64), make([]byte, 64))
		if e, err := logpage.ParseReservationEntry(data); err != nil || e.Kind != want {
			t.Errorf("expected notice %d, found %+v, %v", want, e, err)
		}
	}
	// The list of changed namespaces likewise.
	if err := r.subs.AddNamespace(r.sub, &Namespace{ID: 9, Size: 4096, Block: 512}); err != nil {
		t.Fatal(err)
	}
	beyond = logpage.Command(logpage.ChangedNamespaces, 0, 64)
	beyond.CDW12 = 1 << 20
	a.admin.run(beyond, make([]byte, 64))
	for _, want := range []byte{9, 0} {
		_, data := a.admin.must(logpage.Command(logpage.ChangedNamespaces, 0, 64), make([]byte, 64))
		if data[0] != want {
			t.Errorf("expected namespace %d, found %x", want, data)
		}
	}
}

func TestNamespacesSayThatTheyCanBeReserved(t *testing.T) {
	r := newRig(t)
	a, _ := r.admin(nqn)
	_, b := a.must(identifyCommand(identify.CNSNamespace, 1), make([]byte, identify.Len))
	if n, err := identify.ParseNamespace(b); err != nil || n.Reserves != 0x7e {
		t.Errorf("namespace %+v, %v", n, err)
	}
	_, b = a.must(identifyCommand(identify.CNSController, 0), make([]byte, identify.Len))
	if k, err := identify.ParseController(b); err != nil || k.Commands&identify.CommandReservations == 0 {
		t.Errorf("controller %+v, %v", k, err)
	}
}

func TestRegistrantsAreLimited(t *testing.T) {
	n := new(reservation)
	f := reserve.ReservationFields{}
	for i := range maxRegistrants {
		if _, r := n.register(reserver{host: [16]byte{byte(i), byte(i >> 8)}}, f, 0, 1); r != nil {
			t.Fatal(r)
		}
	}
	if _, r := n.register(reserver{host: [16]byte{15: 1}}, f, 0, 1); r == nil || r.Why != RegistrantLimit {
		t.Errorf("found %v", r)
	}
	if len(n.report()) != 64+maxRegistrants*64 {
		t.Errorf("a report of %d bytes", len(n.report()))
	}
}

// FuzzReservation lets hosts do anything. The holder is a registrant, and alone with what it may do.
func FuzzReservation(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 0x10, 1, 1, 0, 0x11, 2, 1, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		n := new(reservation)
		for ; len(b) >= 4; b = b[4:] {
			host := reserver{host: [16]byte{b[0] & 3}}
			fields := reserve.ReservationFields{Action: b[0] >> 5, IgnoreKey: b[1]&128 != 0, Type: reserve.ReservationType(b[1] & 7)}
			before := fmt.Sprint(*n)
			var r *Refusal
			switch b[0] >> 2 & 3 {
			case 0:
				_, r = n.register(host, fields, uint64(b[2]&3), uint64(b[3]&3))
			case 1:
				_, r = n.acquire(host, fields, uint64(b[2]&3), uint64(b[3]&3))
			default:
				_, r = n.release(host, fields, uint64(b[2]&3))
			}
			if r != nil && fmt.Sprint(*n) != before {
				t.Errorf("a refused command has changed %s to %v", before, *n)
			}
			if n.kind != 0 && !n.kind.AllHold() && n.find(n.holder) == nil || n.kind.AllHold() && len(n.registrants) == 0 {
				t.Errorf("a reservation without a registrant: %+v", *n)
			}
			for _, x := range n.registrants {
				if n.holds(x.host) && !n.allows(x.host, true) {
					t.Errorf("the holder %v may not write: %+v", x.host, *n)
				}
			}
			if n.kind != 0 && n.allows(reserver{host: [16]byte{15: 1}}, true) {
				t.Errorf("another host may write: %+v", *n)
			}
		}
	})
}
