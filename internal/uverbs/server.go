//go:build linux

package uverbs

import (
	stdcontext "context"
	"crypto/rand"
	"encoding/binary"
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

	"golang.org/x/sys/unix"

	"softrdma/internal/cma"
	"softrdma/verbs"
)

// A Config says what a Server serves. Devices and Dir are required.
type Config struct {
	// Devices are what programs find as rxe0, rxe1 and so on, and iWARP devices
	// as siw0, siw1 and so on. They stay the
	// caller's. No two may have one GUID, by which librdmacm tells them apart.
	Devices []*verbs.Device

	// Dir is a directory of the caller's, for the socket and the tree of sysfs
	// files, which the server makes.
	Dir string

	// Socket is the path of the socket, where it is not "socket" in Dir.
	Socket string

	// Mode is the socket's; 0 takes 0600.
	Mode fs.FileMode

	// Allow tells whether programs of a user and group are served; nil serves
	// the server's own user and root.
	Allow func(uid, gid uint32) bool

	// Log takes a line for each call that is refused, nil for none.
	Log func(string)
}

// A Server gives programs devices.
type Server struct {
	cfg     Config
	devices []*device
	kinds   map[string]*kind // by the names of their device files
	managed *managed
	ln      *net.UnixListener
	ctx     stdcontext.Context // of what runs for the server
	stop    stdcontext.CancelFunc

	mu        sync.Mutex // taken after a file's lock, and nothing after it
	processes map[int]*process
	files     map[uint64]*file
	conns     map[*net.UnixConn]struct{} // in Go's poller
	exchanges map[*exchange]struct{}     // on threads
	accounts  map[uint32]*account        // by user
	stock     *stock
	closed    bool
	running   sync.WaitGroup
	threads   atomic.Int32 // of connections, and those that wanted one
	watching  atomic.Int32 // threads that watch
	refusing  atomic.Int32 // connections that wait to hear why they are refused
	lines     logLimit
}

// Serve starts a server.
func Serve(cfg Config) (*Server, error) {
	s := &Server{
		cfg: cfg, kinds: make(map[string]*kind),
		processes: make(map[int]*process), files: make(map[uint64]*file), conns: make(map[*net.UnixConn]struct{}),
		exchanges: make(map[*exchange]struct{}),
		accounts:  make(map[uint32]*account), stock: newStock(), lines: newLogLimit(),
	}
	if err := s.addDevices(); err != nil {
		return nil, err
	}
	if err := s.writeTree(); err != nil {
		return nil, fmt.Errorf("sysfs tree: %w", err)
	}
	ln, err := listen(s.Socket(), cfg.Mode)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.Tree()))
	}
	s.ln = ln
	s.ctx, s.stop = stdcontext.WithCancel(stdcontext.Background())
	s.running.Add(1 + len(s.devices))
	go s.accept()
	for _, d := range s.devices {
		go func() {
			defer s.running.Done()
			d.deliverEvents(s.ctx)
		}()
	}
	return s, nil
}

// addDevices makes the kinds of device files that there are.
func (s *Server) addDevices() error {
	for _, v := range s.cfg.Devices {
		if v.Daemon() {
			return fmt.Errorf("%s is another daemon's device: serve one of this process: %w", v.Name(), errors.ErrUnsupported)
		}
		d := newDevice(v, s.devices)
		for _, other := range s.devices {
			if other.guid() == d.guid() {
				return fmt.Errorf("devices on %v and %v have the same GUID %v: take another address",
					other.addr(), d.addr(), v.Query().NodeGUID)
			}
		}
		s.devices = append(s.devices, d)
		s.kinds[d.file()] = &kind{rdev: d.rdev(), open: func(f *file) service { return newContext(f, d) }}
	}
	if len(s.devices) == 0 {
		return errors.New("a server of no device")
	}
	h := host{s.devices}
	s.managed = &managed{m: cma.New(h, cma.Config{}), host: h, ids: make(map[uint32]*ucmID), by: make(map[*cma.ID]*ucmID)}
	s.kinds["rdma_cm"] = &kind{rdev: cmRdev, open: func(f *file) service { return newManager(f, s.managed) }}
	return nil
}

// Socket is the path of the server's socket.
func (s *Server) Socket() string {
	if s.cfg.Socket != "" {
		return s.cfg.Socket
	}
	return filepath.Join(s.cfg.Dir, "socket")
}

// Devices are the names by which programs find the devices, in their order.
func (s *Server) Devices() (names []string) {
	for _, d := range s.devices {
		names = append(names, d.name)
	}
	return names
}

// Tree is the directory below which the sysfs files lie.
func (s *Server) Tree() string { return filepath.Join(s.cfg.Dir, "tree") }

// Environment is what a program's environment needs, with the library's path in
// LD_PRELOAD before what is there.
func (s *Server) Environment(library string) []string {
	return Environment(library, s.Socket(), s.Tree())
}

// Environment is what the environment of a program that uses the server of a
// socket and a tree needs.
func Environment(library, socket, tree string) []string {
	preload := library
	if old := os.Getenv("LD_PRELOAD"); old != "" {
		preload += ":" + old
	}
	return []string{"LD_PRELOAD=" + preload, "SOFTRDMA_SOCKET=" + socket, "SOFTRDMA_TREE=" + tree}
}

// ShareMemory is what the environment of a program needs beside that, whose
// registered memory is to be shared with the server where it can be.
const ShareMemory = "SOFTRDMA_SHARE_MEMORY=1"

// Counts are the numbers of what clients hold.
type Counts struct{ Files, Processes, Objects int }

// Count tells how much clients hold.
func (s *Server) Count() Counts {
	s.mu.Lock()
	c := Counts{Files: len(s.files), Processes: len(s.processes)}
	files := slices.Collect(maps.Values(s.files))
	s.mu.Unlock()
	for _, f := range files {
		c.Objects += f.count()
	}
	return c
}

// Close ends the server and takes everything from its clients: they find their
// requests flushed and an event of a fatal error of the device, and calls fail.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
	for e := range s.exchanges {
		e.hangUp()
	}
	files := slices.Collect(maps.Values(s.files))
	for _, p := range s.processes {
		p.close()
	}
	s.mu.Unlock()
	err := s.ln.Close()
	for _, f := range files {
		f.fail()
		f.end()
	}
	s.stop()
	s.managed.m.Wait()
	s.running.Wait()
	return errors.Join(err, os.RemoveAll(s.Tree()))
}

// open opens a device file: the program gets a descriptor whose closing tells.
// Probe is an address of the program's that is mapped, to see whether its memory
// can be reached: a device that cannot is none.
func (s *Server) open(p *process, name string, probe uint64, a *answer) error {
	kind := s.kinds[name]
	if kind == nil {
		return syscall.ENOENT
	}
	if err := p.reach(probe); err != nil {
		return err
	}
	tell, end, err := newPipe(1, p.account)
	if err != nil {
		return err
	}
	f := &file{server: s, name: name, uid: p.uid, gid: p.gid, account: p.account, tell: tell}
	f.service = kind.open(f)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		unix.Close(end)
		tell.close()
		return syscall.EIO
	}
	for f.id < 16 || s.files[f.id] != nil {
		f.id = random64()
	}
	s.files[f.id] = f
	s.running.Add(1)
	s.mu.Unlock()
	a.give(end, 0, 0, 0)
	a.File, a.Rdev = f.id, kind.rdev
	if err := tell.onClose(func() {
		defer s.running.Done()
		f.end()
	}); err != nil {
		s.running.Done()
		f.end()
		return err
	}
	return nil
}

// remove forgets a file that has ended.
func (s *Server) remove(f *file) {
	s.mu.Lock()
	delete(s.files, f.id)
	s.mu.Unlock()
}

// random64 is a number that nobody can guess: it is as good as the file.
func random64() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand, Go 1.24)
	return binary.NativeEndian.Uint64(b[:])
}
