//go:build linux

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/inherit"
	"softrdma/internal/unixmsg"
	"softrdma/internal/wire/uapi"
)

// A Slot is a share of the address of a daemon's device, for an adapter in this process.
type Slot struct {
	uapi.Slot
	Socket string // the daemon's
	PID    int    // the daemon's

	fds unixmsg.Descriptors
	end int // whose end gives the slot back

	// Memory is memory that the daemon has, too: a recorder.Slot. The caller unmaps it.
	Memory []byte

	// Rules are those of the daemon's device for faults, as JSON, nil if it has none.
	Rules []byte
}

// maxRules bounds the text of rules of faults, in bytes.
const maxRules = 4 << 20

// deviceName matches the names that a daemon gives to devices.
var deviceName = regexp.MustCompile(`^[a-z]+[0-9]+$`)

// split splits a name into the path of a socket and the name of a device. Either
// can be empty.
func split(name string) (socket, device string) {
	if dir, last := filepath.Split(name); deviceName.MatchString(last) {
		return strings.TrimSuffix(dir, "/"), last
	}
	return name, ""
}

// A target is a device of a daemon.
type target struct {
	socket, device string
	file           string // the name of the device's file
	about          *Info  // of the daemon
}

// locate finds the device of a name that TakeSlot takes.
func locate(ctx context.Context, name string) (*target, error) {
	socket, device := split(name)
	socket, about, err := find(ctx, socket)
	if err != nil {
		return nil, err
	}
	index := 0
	if device != "" {
		index = slices.IndexFunc(about.Devices, func(line string) bool { return strings.HasPrefix(line, device+" ") })
	}
	if index < 0 || index >= len(about.Devices) {
		return nil, fmt.Errorf("daemon on %s: no device %q, it serves: %s", socket, device, strings.Join(about.Devices, ", "))
	}
	device, _, _ = strings.Cut(about.Devices[index], " ")
	return &target{socket, device, fmt.Sprint("uverbs", index), about}, nil
}

// TakeSlot asks for a slot of a device. The name is the path of a daemon's socket, "" to search
// for one, followed by a device name like "/rxe1" unless it is the first device. The error has the
// daemon's reason.
func TakeSlot(ctx context.Context, name string) (*Slot, error) {
	t, err := locate(ctx, name)
	if err != nil {
		return nil, err
	}
	s, err := takeSlot(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("daemon on %s: %s: %w", t.socket, t.device, err)
	}
	s.Socket, s.PID = t.socket, t.about.PID
	return s, nil
}

func takeSlot(ctx context.Context, t *target) (*Slot, error) {
	c, err := dial(ctx, t.socket)
	if err != nil {
		return nil, err
	}
	defer c.close()
	p, text, fds, err := c.call(&uapi.Request{Op: uapi.OpSlot | uapi.OpTell, Arg: [4]uint64{uapi.Reasons()}}, []byte(t.file))
	if err == nil {
		err = failure(&p, text, p.Result != -int64(syscall.EPROTO)) // of a daemon that numbers reasons otherwise
	}
	s := &Slot{}
	if err == nil {
		err = json.Unmarshal(text, &s.Slot)
	}
	if err == nil && (len(fds) < uapi.MinSlotDescriptors || s.First < 1 || s.First >= s.Of) {
		err = fmt.Errorf("slot %d of %d with %d descriptors: %w", s.First, s.Of, len(fds), syscall.EPROTO)
	}
	own := len(fds) - uapi.MinSlotDescriptors // those of the link
	if err == nil {
		err = s.join(fds[own])
	}
	if err != nil {
		fds.Close()
		return nil, err
	}
	_ = unix.Close(fds[own])
	s.fds, s.end = fds[:own], fds[own+1]
	inherit.Add(s.end)
	return s, nil
}

// join maps memory that the daemon has, too, and reads the rules of faults at its end.
func (s *Slot) join(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	n := s.Slot.Faults
	size := int(st.Size) - n
	if n < 0 || n > maxRules || size <= 0 {
		return fmt.Errorf("memory of %d bytes with %d, at most %d, of rules of faults: %w", st.Size, n, maxRules, syscall.EPROTO)
	}
	if n > 0 {
		s.Rules = make([]byte, n)
		if k, err := unix.Pread(fd, s.Rules, int64(size)); err != nil || k != n {
			return fmt.Errorf("rules of faults: expected %d bytes, found %d: %w", n, k, errors.Join(err, syscall.EPROTO))
		}
	}
	m, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	s.Memory = m
	return os.NewSyscallError("mmap", err)
}

// Descriptors returns the descriptors of the link (link/udp.OpenSlot, link/packet.OpenSlot), once.
// The caller closes them. A port of a fabric has none.
func (s *Slot) Descriptors() unixmsg.Descriptors {
	fds := s.fds
	s.fds = nil
	return fds
}

// Conn returns another connection of the socket whose end gives the slot back, for package away.
func (s *Slot) Conn() (*net.UnixConn, error) {
	fd, err := unix.FcntlInt(uintptr(s.end), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
	}
	return unixmsg.ConnOf(fd)
}

// Close gives the slot back. A forked child may have its descriptors, too.
func (s *Slot) Close() error {
	s.Descriptors().Close()
	if s.end < 0 {
		return nil
	}
	inherit.Remove(s.end)
	err := errors.Join(os.NewSyscallError("shutdown", unix.Shutdown(s.end, unix.SHUT_RDWR)), unix.Close(s.end))
	s.end = -1
	return err
}
