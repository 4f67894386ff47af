//go:build linux

package uverbs

import (
	stdcontext "context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"softrdma/internal/control"
	"softrdma/internal/management/hardware"
	"softrdma/internal/object"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
	"softrdma/internal/registry"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/commands"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/uverbs/folder"
	"softrdma/internal/uverbs/ucm"
	"softrdma/internal/uverbs/umad"
	"softrdma/verbs"
)

// A Config says what a Server serves. Devices and Dir are required.
type Config struct {
	// Devices are the devices that programs find, RoCE devices as rxe0, rxe1 and so
	// on, iWARP devices as siw0, siw1 and so on. The caller closes them. No two may
	// have the same GUID, by which librdmacm distinguishes them.
	Devices []*verbs.Device

	// Dir is a directory of the caller, in which the server creates the socket and
	// the tree of sysfs files.
	Dir string

	// Socket is the path of the socket. The default is "socket" in Dir.
	Socket string

	// Mode is the mode of the socket; 0 means 0600.
	Mode fs.FileMode

	// Allow reports whether programs of a user and group are served. Nil allows the
	// server's own user and root.
	Allow func(uid, gid uint32) bool

	// ClientMemory is how many bytes of memory the programs of all users may make the server
	// hold, those of one user two thirds of it. 0 means three quarters of the memory that
	// the system, or the control group, has for the server.
	ClientMemory int64

	// Behind keeps tools from showing the devices while no program has opened one here, for a server
	// that only the programs know of that have started it.
	Behind bool

	// Log gets a line for each call that is refused, if it is not nil.
	Log func(string)
}

// A Server serves devices to programs.
type Server struct {
	cfg         Config
	devices     []*device.Device
	commands    []*commands.Device
	files       *client.Files
	connections *ucm.Manager
	management  *umad.Manager
	tree        tree
	ln          *net.UnixListener
	runtime     client.Runtime
	stop        stdcontext.CancelFunc

	accepted   atomic.Uint64 // connections, also those that are refused
	portEvents chan struct{} // a port has changed since followPorts last looked

	admission *client.Admission
	slots     slots
	links     links

	mu        sync.Mutex
	conns     map[*net.UnixConn]bool // in Go's poller; true for those of netlink
	exchanges map[*exchange]struct{} // on threads
	closed    bool
}

// Serve starts a server.
func Serve(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, conns: make(map[*net.UnixConn]bool), exchanges: make(map[*exchange]struct{}), portEvents: make(chan struct{}, 1)}
	s.files = client.NewFiles(&s.runtime)
	s.runtime.Context, s.stop = stdcontext.WithCancel(stdcontext.Background())
	s.runtime.Refusals.Log = cfg.Log
	// A refusal is counted by the first device, because it may concern none.
	s.runtime.Refusals.Count = func(d reason.Detail) { s.devices[0].Adapter.Trace.Refuse(0, d) }
	s.slots.taken, s.slots.ended = make(map[*slot]struct{}), make(map[*device.Device]*counts)
	s.admission = client.NewAdmission(&s.runtime, connectionDescriptors, cfg.ClientMemory, cfg.Allow)
	s.admission.Ended = func(p *client.Process) {
		control.Ended(p.PID) // it may have been killed
		s.slots.endOf(p)
		s.portChanged() // what it has counted is in the tree then
	}
	if err := s.addDevices(); err != nil {
		return nil, err
	}
	s.tree = tree{dir: s.Tree(), written: make(map[string]string)}
	if err := s.refresh(0); err != nil {
		return nil, fmt.Errorf("sysfs tree: %w", err)
	}
	ln, err := listen(s.Socket(), cfg.Mode)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.Tree()))
	}
	s.ln = ln
	for _, d := range s.devices {
		everyone := func(uint32) bool { return true } // who asks is the server's user or root
		describe := func() object.List { return s.ownObjects(d, everyone) }
		registry.Of(d.Verbs).Objects.Store(&describe)
		if cfg.Behind {
			unused := func() bool { return !s.opened(d) }
			registry.Of(d.Verbs).Unused.Store(&unused)
		}
	}
	readers, err := s.watchReaders()
	if err != nil && cfg.Log != nil {
		cfg.Log("only programs with the preloaded library read current counters: inotify: " + err.Error())
	}
	s.runtime.Running.Add(3 + len(s.commands))
	go s.accept()
	go func() {
		defer s.runtime.Running.Done()
		s.followReaders(readers)
	}()
	go func() {
		defer s.runtime.Running.Done()
		s.followPorts()
	}()
	s.management.Start()
	for _, d := range s.commands {
		go func() {
			defer s.runtime.Running.Done()
			d.DeliverEvents(s.runtime.Context)
		}()
	}
	return s, nil
}

// opened reports whether a program has a file of a device or of connection management open. Programs that
// have their devices in their own process have none.
func (s *Server) opened(d *device.Device) bool {
	return slices.ContainsFunc(s.files.All(), func(f *client.File) bool { return f.Name == d.FileName() || f.Name == cmName })
}

// addDevices makes the kinds of device files that there are.
func (s *Server) addDevices() error {
	for _, v := range s.cfg.Devices {
		d := device.New(v, s.devices)
		for _, other := range s.devices {
			if other.GUID() == d.GUID() {
				return fmt.Errorf("devices on %v and %v have the same GUID %v: take another address",
					other.Addr(), d.Addr(), v.Query().NodeGUID)
			}
		}
		s.devices = append(s.devices, d)
		if d.Adapter.IWARP() {
			if err := s.slots.shareStreams(d); err != nil {
				return err
			}
		}
		d.Adapter.SetElsewhere(func(lane int, f func(*recorder.Pairs)) {
			s.slots.with(d, lane, func(m *recorder.Slot) { f(m.Pairs()) })
		})
		c := commands.NewDevice(d)
		c.PortChanged = s.portChanged
		s.commands = append(s.commands, c)
		s.files.Kinds[d.FileName()] = &client.Kind{Rdev: d.DeviceNumber(), Open: c.Open}
	}
	if len(s.devices) == 0 {
		return errors.New("a server of no device")
	}
	s.connections = ucm.New(s.devices)
	s.files.Kinds[cmName] = &client.Kind{Rdev: cmRdev, Open: s.connections.Open}
	var ports []umad.Port
	for _, d := range s.devices {
		switch {
		case d.Fabric != nil:
			ports = append(ports, umad.InfiniBand(d))
		case !d.Adapter.IWARP(): // which has no queue pair 1
			ports = append(ports, umad.RoCE(d, func() *hardware.Counters { return s.portCounters(d) }))
		}
	}
	s.management = umad.New(&s.runtime, ports)
	maps.Copy(s.files.Kinds, s.management.Kinds())
	return nil
}

// Socket is the path of the server's socket.
func (s *Server) Socket() string {
	if s.cfg.Socket != "" {
		return s.cfg.Socket
	}
	return filepath.Join(s.cfg.Dir, folder.Socket)
}

// Devices are the names by which programs find the devices, in their order.
func (s *Server) Devices() (names []string) {
	for _, d := range s.devices {
		names = append(names, d.Name)
	}
	return names
}

// Tree is the directory below which the sysfs files lie.
func (s *Server) Tree() string { return filepath.Join(s.cfg.Dir, "tree") }

// Counts says how much clients hold.
type Counts struct{ Files, Processes, Objects, Slots int }

// Count returns how much clients hold.
func (s *Server) Count() Counts {
	files := s.files.All()
	c := Counts{Files: len(files), Processes: len(s.admission.Processes())}
	for _, f := range files {
		c.Objects += f.Count()
	}
	c.Slots = s.slots.count()
	return c
}

// Close ends the server and all objects of its clients. They find their requests
// flushed and an event of a fatal error of the device, and their calls fail.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for c, netlink := range s.conns {
		if netlink {
			tellRemoved(view{s: s}, c)
		}
		_ = c.Close()
	}
	for e := range s.exchanges {
		e.hangUp()
	}
	s.mu.Unlock()
	s.admission.Close()
	s.slots.close()
	err := s.ln.Close()
	s.files.Close()
	s.management.Close()
	s.stop()
	for _, d := range s.devices {
		if e := registry.Of(d.Verbs); e != nil {
			e.Objects.Store(nil)
			e.Unused.Store(nil)
		}
	}
	s.connections.Wait()
	s.runtime.Running.Wait()
	return errors.Join(err, os.RemoveAll(s.Tree()))
}

// open opens a device file. Probe is an address that the program has mapped: open fails if
// the program's memory cannot be accessed, because no request would work.
func (s *Server) open(p *client.Process, name string, probe uint64, a *client.Answer) error {
	if s.files.Kinds[name] == nil {
		return syscall.ENOENT
	}
	if err := p.CheckMemory(probe); err != nil {
		return err
	}
	return s.files.Open(p, name, a)
}
