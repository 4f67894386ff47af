//go:build linux

package uverbs

import (
	"cmp"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/adapter"
	"softrdma/internal/away"
	"softrdma/internal/control"
	"softrdma/internal/memfd"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
	"softrdma/internal/registry"
	"softrdma/internal/unixmsg"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/uapi"
)

// slots are the shares of devices' addresses that programs have.
type slots struct {
	mu     sync.Mutex
	closed bool
	taken  map[*slot]struct{}
	ended  map[*device.Device]*counts // of programs that have ended
	asker  control.Asker
}

// A slot is a share of a device's address that a program has until it closes its end of
// a socket or the process ends.
type slot struct {
	from    registry.Slots
	lane    int
	process *client.Process
	end     *net.UnixConn // the server's
	away    *away.Client  // of an iWARP device

	device *device.Device
	memory []byte
	shared *recorder.Slot // in memory: what the program counts and records

	evidence evidence
}

// slot lends a share of a device's address.
func (s *Server) slot(p *client.Process, name string, reasons uint64, a *client.Answer) error {
	d, from, err := s.shared(p, name)
	switch {
	case reasons != uapi.Reasons():
		return client.Refuse(syscall.EPROTO, reason.ClientProtocol, uapi.Protocol, 0)
	case err != nil:
		return err
	}
	file, id, err := from.Capture()
	if err != nil {
		return err
	}
	lane, fds, err := from.Take()
	if err != nil {
		return slotError(err)
	}
	for _, fd := range fds {
		a.Attach(fd, 0, 0, 0)
	}
	x := &slot{from: from, lane: lane, process: p, device: d}
	rules, err := rulesOf(d)
	if err != nil {
		from.Give(lane)
		return err
	}
	memory, fd, err := memfd.New("softrdma-slot", recorder.SlotSize+len(rules), false)
	if err != nil {
		from.Give(lane)
		return err
	}
	a.Attach(fd, 0, 0, 0)
	x.memory, x.shared = memory, recorder.SlotIn(memory)
	copy(memory[recorder.SlotSize:], rules)
	far, err := s.slots.add(s, x)
	if err != nil {
		from.Give(lane)
		return errors.Join(err, unix.Munmap(memory))
	}
	a.Attach(far, 0, 0, 0)
	about := describe(d, from.Key(), lane)
	about.Capture, about.CaptureID, about.Faults = file, id, len(rules)
	a.Text, err = json.Marshal(about)
	if err == nil && len(a.Text) > uapi.MaxText {
		err = client.Refuse(syscall.ENAMETOOLONG, reason.ClientProtocol, uapi.MaxText, uint64(len(a.Text)))
	}
	return err // which gives the slot back, as it closes far
}

// rulesOf returns the rules of faults of a device as JSON, nil if it has none.
func rulesOf(d *device.Device) ([]byte, error) {
	x := d.Verbs.Faults()
	if !x.Active() {
		return nil, nil
	}
	return json.Marshal(x.Rules())
}

// shared returns a device of which the process may have a share.
func (s *Server) shared(p *client.Process, name string) (*device.Device, registry.Slots, error) {
	for _, d := range s.devices {
		if d.FileName() != name {
			continue
		}
		from := registry.Of(d.Verbs).Slots
		switch {
		case from == nil:
			return nil, nil, client.Refuse(syscall.EOPNOTSUPP, reason.SlotUnshared, 0, uint64(d.Verbs.Protocol()))
		case int(p.UID) != os.Geteuid():
			return nil, nil, client.Refuse(syscall.EACCES, reason.SlotUser, uint64(os.Geteuid()), uint64(p.UID))
		}
		return d, from, nil
	}
	return nil, nil, syscall.ENOENT
}

// slotError returns the refusal of a program for which there is no slot.
func slotError(err error) error {
	var why *reason.Error
	if errors.As(err, &why) {
		return client.Refuse(syscall.EBUSY, why.Detail.Reason, why.Detail.Expected, why.Detail.Found)
	}
	return err
}

// describe says what an adapter needs to know of its slot.
func describe(d *device.Device, key [16]byte, lane int) *uapi.Slot {
	s := &uapi.Slot{
		Protocol: uint8(d.Verbs.Protocol()), Addr: d.Verbs.Addr(), Interface: d.Verbs.Name(), GUID: uint64(d.Verbs.Query().NodeGUID), MTU: d.Verbs.QueryPort().ActiveMTU,
		First: lane, Of: d.Adapter.Share().Of, Key: key, Relayed: registry.Of(d.Verbs).TLS != nil,
		KeepReasons: d.Adapter.KeepsReasons(),
	}
	e := registry.Of(d.Verbs)
	if port := cmp.Or(e.Fabric, e.Ethernet); port != nil {
		at := port.Place()
		s.FabricDir, s.FabricSecret = at.Directory, at.Secret
	}
	if e.Ethernet != nil {
		s.EthernetPort = e.Ethernet.Info().Fabric + "/" + d.Addr().String()
	}
	host := d.Verbs.SameHost()
	s.SameHost = string(host.Mode)
	if host.Socket != "" {
		s.SameHostDir = filepath.Dir(host.Socket)
	}
	return s
}

// add records a slot, and returns the program's end of its socket.
func (t *slots) add(s *Server, x *slot) (far int, err error) {
	if err := x.process.Account.Descriptors.Take(1); err != nil {
		return -1, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		x.process.Account.Descriptors.Return(1)
		return -1, err
	}
	if x.end, err = unixmsg.ConnOf(fds[0]); err != nil {
		x.process.Account.Descriptors.Return(1)
		return -1, errors.Join(err, unix.Close(fds[1]))
	}
	x.away = away.NewClient(x.end, x.device.Adapter, x.hold)
	x.away.Keep = x.keep
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || x.process.Ended() {
		x.process.Account.Descriptors.Return(1)
		_ = unix.Close(fds[1])
		return -1, errors.Join(syscall.EIO, x.end.Close())
	}
	t.taken[x] = struct{}{}
	s.runtime.Running.Add(1)
	go func() {
		defer s.runtime.Running.Done()
		x.away.Run() // until either end is closed
		t.remove(x)
		x.write(s.cfg.Log)
	}()
	return fds[1], nil
}

// relayDescriptors is what a stream takes whose connection stays in this process: the connection
// and the socket to the program.
const relayDescriptors = 2

// hold is a link.Hold.
func (x *slot) hold() (release func(), err error) {
	account := &x.process.Account.Descriptors
	if err := account.Take(relayDescriptors); err != nil {
		return nil, err
	}
	return func() { account.Return(relayDescriptors) }, nil
}

// of returns the slot of a device's lane, nil if it is free.
func (t *slots) of(d *device.Device, lane int) *slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	for x := range t.taken {
		if x.device == d && x.lane == lane {
			return x
		}
	}
	return nil
}

// with calls f with the memory of the slot of a device's lane, unless the lane is free.
func (t *slots) with(d *device.Device, lane int, f func(*recorder.Slot)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for x := range t.taken {
		if x.device == d && x.lane == lane {
			f(x.shared)
			return
		}
	}
}

// shareStreams lets programs drive the streams of their queue pairs.
func (t *slots) shareStreams(d *device.Device) error {
	d.LaneOwner = func(lane int) *client.Process {
		if x := t.of(d, lane); x != nil {
			return x.process
		}
		return nil
	}
	return adapter.ShareStreams(d.Adapter, func(lane int) adapter.StreamAway {
		if x := t.of(d, lane); x != nil {
			return x.away
		}
		return nil
	})
}

// remove gives a slot back.
func (t *slots) remove(x *slot) {
	t.mu.Lock()
	delete(t.taken, x)
	sum := t.ended[x.device]
	if sum == nil {
		sum = new(counts)
		t.ended[x.device] = sum
	}
	sum.add(&x.shared.Page)
	x.look()
	_ = unix.Munmap(x.memory)
	t.mu.Unlock()
	_ = x.end.Close()
	x.from.Give(x.lane)
	x.process.Account.Descriptors.Return(1)
}

// counted returns what the programs of a device have counted.
func (t *slots) counted(d *device.Device) (sum counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ended := t.ended[d]; ended != nil {
		sum = *ended
	}
	for x := range t.taken {
		if x.device == d {
			sum.add(&x.shared.Page)
		}
	}
	return sum
}

// endOf frees the slots of a process that has ended. A child may have its descriptors.
func (t *slots) endOf(p *client.Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for x := range t.taken {
		if x.process == p {
			x.hangUp()
		}
	}
}

// close gives all slots back. Programs keep using them.
func (t *slots) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for x := range t.taken {
		x.hangUp()
	}
}

// hangUp ends the Run of add, after what the program has sent.
func (x *slot) hangUp() { _ = x.end.CloseRead() }

func (t *slots) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.taken)
}
