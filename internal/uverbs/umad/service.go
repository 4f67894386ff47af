//go:build linux

package umad

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// A service executes the calls on a file umadN (client.Service).
type service struct {
	*file
	port *port
}

// Write implements client.Service (ib_umad_write).
func (s *service) Write(_ *client.Call, buf []byte) error { return s.send(s.port.clock(), buf) }

// MaxWrite implements client.LongWriter.
func (s *service) MaxWrite() int { return uapi.Size[uapi.MADHeader]() + maxTransfer }

// Read implements client.Reader (ib_umad_read).
func (s *service) Read(c *client.Call, to client.Buffer) error {
	b, err := s.next(to.N)
	if err == syscall.EAGAIN {
		return err // the library waits for the socket
	}
	if e := c.Store(to, b); e != nil {
		err = e
	}
	if err != nil {
		s.ask() // the packet stays
		return err
	}
	s.remove()
	c.Answer.Result = int64(len(b))
	return nil
}

// Ioctl implements client.Service (ib_umad_ioctl).
func (s *service) Ioctl(c *client.Call, number, arg uint64) error {
	switch number {
	case uapi.MADRegisterAgent:
		return s.registerOld(c, arg)
	case uapi.MADRegisterAgent2:
		return s.registerNew(c, arg)
	case uapi.MADUnregisterAgent:
		b, err := c.Load(arg, 4)
		if err != nil {
			return syscall.EFAULT
		}
		return s.unregister(binary.NativeEndian.Uint32(b))
	case uapi.MADEnablePKey:
		if s.registered {
			return syscall.EINVAL
		}
		s.setPKeys(true)
		return nil
	}
	return syscall.ENOTTY
}

func (s *service) registerOld(c *client.Call, arg uint64) error {
	b, err := c.Load(arg, uapi.Size[uapi.MADRegister]())
	if err != nil {
		return syscall.EFAULT
	}
	q, _ := uapi.Parse[uapi.MADRegister](b)
	if q.QPN > 1 {
		return syscall.EINVAL
	}
	r := registration{qpn: uint32(q.QPN), class: q.Class, version: q.Version, oui: q.OUI, transfers: q.RMPPVersion, methods: q.Methods.Has}
	return s.registerAs(c, &r, arg+uint64(unsafe.Offsetof(q.ID)))
}

func (s *service) registerNew(c *client.Call, arg uint64) error {
	b, err := c.Load(arg, uapi.Size[uapi.MADRegister2]())
	if err != nil {
		return syscall.EFAULT
	}
	q, _ := uapi.Parse[uapi.MADRegister2](b)
	switch {
	case q.QPN > 1:
		return syscall.EINVAL
	case q.Flags != 0: // the program reads which flags there are: none
		if err := c.Process.Store(arg+uint64(unsafe.Offsetof(q.Flags)), make([]byte, 4)); err != nil {
			return syscall.EFAULT
		}
		return syscall.EINVAL
	case q.Class != 0 && q.OUI>>24 != 0:
		return syscall.EINVAL
	}
	r := registration{
		qpn: q.QPN, class: q.Class, version: q.Version, oui: [3]byte{byte(q.OUI >> 16), byte(q.OUI >> 8), byte(q.OUI)},
		transfers: q.RMPPVersion, methods: q.Methods.Has,
	}
	before := s.setPKeys(true) // the agent may receive at once
	if err := s.registerAs(c, &r, arg+uint64(unsafe.Offsetof(q.ID))); err != nil {
		s.setPKeys(before)
		return err
	}
	return nil
}

// registerAs registers an agent and stores its number in the program's memory.
func (s *service) registerAs(c *client.Call, r *registration, at uint64) error {
	id, err := s.register(r)
	if err != nil {
		return err
	}
	if err := c.Process.Store(at, binary.NativeEndian.AppendUint32(nil, id)); err != nil {
		_ = s.unregister(id) // exists
		return syscall.EFAULT
	}
	s.registered = true
	return nil
}

// Mmap implements client.Service: there is nothing to map.
func (s *service) Mmap(*client.Call, uint64, uint64, int) error { return syscall.ENODEV }

// Fail implements client.Service. The program reads the end of the file.
func (s *service) Fail() {}

// End implements client.Service.
func (s *service) End() { s.close() }

// Count implements client.Service.
func (s *service) Count() (n int) {
	for _, g := range s.list {
		if g != nil {
			n++
		}
	}
	return n
}
