//go:build linux

package uverbs

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/verbs"
)

// A Config says what a Server serves. Device and Dir are required.
type Config struct {
	Device *verbs.Device // stays the caller's

	// Dir is an empty directory of the caller's, for the socket and the tree of
	// sysfs files. Who may enter it may use the device.
	Dir string

	// Log takes a line for each call that is refused, nil for none.
	Log func(string)
}

// A Server gives programs a device.
type Server struct {
	cfg Config
	dev *device
	ln  *net.UnixListener

	mu        sync.Mutex // taken after a file's lock, and nothing after it
	processes map[int]*process
	files     map[uint64]*file
	conns     map[*net.UnixConn]struct{}
	closed    bool
	running   sync.WaitGroup
}

// Serve starts a server.
func Serve(cfg Config) (*Server, error) {
	s := &Server{
		cfg: cfg, processes: make(map[int]*process), files: make(map[uint64]*file), conns: make(map[*net.UnixConn]struct{}),
	}
	s.dev = newDevice(cfg.Device)
	if err := s.dev.writeTree(s.Tree()); err != nil {
		return nil, fmt.Errorf("sysfs tree: %w", err)
	}
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: s.Socket(), Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	s.ln = ln
	if err := passCredentials(ln); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	s.running.Add(2)
	go s.accept()
	go func() {
		defer s.running.Done()
		s.dev.deliverEvents()
	}()
	return s, nil
}

// passCredentials makes the system tell who sent each message; sockets that are
// accepted inherit it.
func passCredentials(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var e error
	if err := raw.Control(func(fd uintptr) { e = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }); err != nil {
		return err
	}
	return e
}

// Socket is the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.cfg.Dir, "socket") }

// Tree is the directory below which the sysfs files lie.
func (s *Server) Tree() string { return filepath.Join(s.cfg.Dir, "tree") }

// Environment is what a program's environment needs, with the library's path in
// LD_PRELOAD before what is there.
func (s *Server) Environment(library string) []string {
	preload := library
	if old := os.Getenv("LD_PRELOAD"); old != "" {
		preload += ":" + old
	}
	return []string{"LD_PRELOAD=" + preload, "SOFTRDMA_SOCKET=" + s.Socket(), "SOFTRDMA_TREE=" + s.Tree()}
}

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

// Close ends the server and takes everything from its clients.
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
	files := slices.Collect(maps.Values(s.files))
	for _, p := range s.processes {
		p.close()
	}
	s.mu.Unlock()
	err := s.ln.Close()
	for _, f := range files {
		f.end()
	}
	s.dev.close()
	s.running.Wait()
	return err
}

func (s *Server) accept() {
	defer s.running.Done()
	for {
		c, err := s.ln.AcceptUnix()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = c.Close()
			return
		}
		s.conns[c] = struct{}{}
		s.running.Add(1)
		s.mu.Unlock()
		go s.serve(c)
	}
}

// serve answers one connection's requests, one after the other.
func (s *Server) serve(c *net.UnixConn) {
	defer s.running.Done()
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		_ = c.Close()
	}()
	buf := make([]byte, requestLen+maxData)
	oob := make([]byte, 256)
	for {
		n, on, _, _, err := c.ReadMsgUnix(buf, oob)
		if err != nil || n == 0 {
			return
		}
		pid, err := sender(oob[:on])
		if err != nil {
			return
		}
		a := s.answer(pid, buf[:n])
		var rights []byte
		if len(a.fds) > 0 {
			rights = unix.UnixRights(a.fds...)
		}
		_, _, err = c.WriteMsgUnix(bytesOf(&a.reply), rights, nil)
		a.close()
		if err != nil {
			return
		}
	}
}

// sender is the process that a message came from. Descriptors that it sent are
// closed: none are expected.
func sender(oob []byte) (int, error) {
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0, err
	}
	pid := 0
	for i := range list {
		if fds, err := unix.ParseUnixRights(&list[i]); err == nil {
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
			continue
		}
		cred, err := unix.ParseUnixCredentials(&list[i])
		if err != nil {
			continue
		}
		if uid := os.Geteuid(); int(cred.Uid) != uid && cred.Uid != 0 && uid != 0 {
			return 0, syscall.EPERM
		}
		pid = int(cred.Pid)
	}
	if pid == 0 {
		return 0, syscall.EPERM
	}
	return pid, nil
}

// answer carries out a request.
func (s *Server) answer(pid int, b []byte) *answer {
	a := &answer{}
	r, ok := parse[request](b)
	if !ok || r.Version != protocol {
		a.fail(syscall.EPROTO)
		return a
	}
	p := s.process(pid)
	if p == nil {
		a.fail(syscall.EIO)
		return a
	}
	data := b[requestLen:]
	if r.Op == opOpen {
		if err := s.open(p, string(data), a); err != nil {
			a.fail(err)
		}
		return a
	}
	s.mu.Lock()
	f := s.files[r.File]
	s.mu.Unlock()
	if f == nil {
		a.fail(syscall.EBADF)
		return a
	}
	if err := f.call(p, &r, data, a); err != nil {
		s.refused(p, f, &r, data, err)
		flags := a.Flags
		a.fail(err)
		a.Flags = flags
	}
	return a
}

// refused logs a call that failed.
func (s *Server) refused(p *process, f *file, r *request, data []byte, err error) {
	if s.cfg.Log == nil || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOTTY) {
		return
	}
	what := fmt.Sprintf("call %d", r.Op)
	switch {
	case r.Op == opIoctl:
		what = "ioctl"
	case r.Op == opWrite && len(data) >= 4:
		what = fmt.Sprintf("command %#x", binary.NativeEndian.Uint32(data))
	}
	s.cfg.Log(fmt.Sprintf("process %d, %s, %s: %v (errno %d)", p.pid, f.name, what, err, errnoOf(err)))
}

// process finds or begins what is known of a process.
func (s *Server) process(pid int) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if p := s.processes[pid]; p != nil && !p.gone.Load() {
		return p
	}
	p := &process{pid: pid}
	s.processes[pid] = p
	s.running.Add(1)
	if !p.watch(func() {
		defer s.running.Done()
		s.mu.Lock()
		if s.processes[pid] == p {
			delete(s.processes, pid)
		}
		s.mu.Unlock()
		p.close()
	}) {
		s.running.Done()
	}
	return p
}

// open opens a device file: the program gets a descriptor whose closing tells.
func (s *Server) open(p *process, name string, a *answer) error {
	kind := s.dev.kind(name)
	if kind == nil {
		return syscall.ENOENT
	}
	tell, end, err := newPipe(1)
	if err != nil {
		return err
	}
	f := &file{server: s, name: name, tell: tell}
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
	a.give(end, 0, 0, false)
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
