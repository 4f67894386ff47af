//go:build linux

package uverbs

import (
	"encoding/binary"
	"net"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"softrdma/internal/unixmsg"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/uapi"
)

// Commands and attributes of RDMA's netlink that package nl lacks
// (rdma/rdma_netlink.h).
const (
	nldevGetPort    = 5
	nldevGetChardev = 15

	nldevInterface   = 50
	nldevProtocol    = 67
	nldevChardevType = 69
	nldevChardevName = 70
	nldevChardevABI  = 71
	nldevChardev     = 72
	nldevDriverID    = 73
	nldevCopyOnFork  = 93
)

// maxNetlink bounds the length of a request.
const maxNetlink = 4 << 10

// netlink opens a socket of RDMA's netlink, by which libraries find devices. libibverbs
// finds siw's devices in no other way. The program gets one end of a socket pair; the
// preloaded library removes the addresses that it sends to.
func (s *Server) netlink(p *client.Process, a *client.Answer) error {
	if err := p.Account.Descriptors.Take(1); err != nil {
		return err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		p.Account.Descriptors.Return(1)
		return err
	}
	own, err := unixmsg.ConnOf(fds[0])
	if err != nil {
		_ = unix.Close(fds[1])
		p.Account.Descriptors.Return(1)
		return err
	}
	a.Attach(fds[1], 0, 0, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = own.Close()
		return syscall.EIO
	}
	s.conns[own] = struct{}{}
	s.runtime.Running.Add(1)
	go func() {
		defer s.runtime.Running.Done()
		s.serveNetlink(own)
		s.mu.Lock()
		delete(s.conns, own)
		s.mu.Unlock()
		_ = own.Close()
		p.Account.Descriptors.Return(1)
	}()
	return nil
}

func (s *Server) serveNetlink(c *net.UnixConn) {
	b := make([]byte, maxNetlink)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		for _, m := range s.netlinkAnswers(b[:n]) {
			if _, err := c.Write(m); err != nil {
				return
			}
		}
	}
}

// netlinkAnswers returns the messages that answer a request.
func (s *Server) netlinkAnswers(b []byte) [][]byte {
	h, ok := uapi.Parse[unix.NlMsghdr](b)
	if !ok || int(h.Len) < uapi.Size[unix.NlMsghdr]() || int(h.Len) > len(b) {
		return nil
	}
	attrs, err := netlinkAttributes(b[uapi.Size[unix.NlMsghdr]():h.Len])
	if err != nil {
		return [][]byte{netlinkError(&h, syscall.EINVAL)}
	}
	dump := h.Flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP
	var list [][]byte
	switch h.Type {
	case nldev(nl.RDMA_NLDEV_CMD_GET):
		list, err = s.netlinkDevices(&h, attrs, dump)
	case nldev(nldevGetPort):
		list, err = s.netlinkPorts(&h, attrs, dump)
	case nldev(nldevGetChardev):
		list, err = s.netlinkChardev(&h, attrs)
	case nldev(nl.RDMA_NLDEV_CMD_SYS_GET):
		// Regions are found by address, so fork needs no help.
		list = [][]byte{netlinkMessage(&h, 0, attr8(nldevCopyOnFork, 1))}
	default:
		err = syscall.EOPNOTSUPP
	}
	switch {
	case err != nil:
		return [][]byte{netlinkError(&h, client.Errno(err))}
	case dump:
		done := h
		done.Type = unix.NLMSG_DONE
		return append(list, netlinkMessage(&done, unix.NLM_F_MULTI, make([]byte, 4)))
	case h.Flags&unix.NLM_F_ACK != 0:
		return append(list, netlinkError(&h, 0))
	}
	return list
}

// netlinkAttributes returns the values of a request's attributes by type. As in the kernel, the last one need not be
// padded, and the last of a type counts. Nl.ParseRouteAttr panics if there is no padding.
func netlinkAttributes(b []byte) (map[uint16][]byte, error) {
	values := map[uint16][]byte{}
	for len(b) >= unix.SizeofRtAttr {
		a, _ := uapi.Parse[unix.RtAttr](b)
		n := int(a.Len)
		if n < unix.SizeofRtAttr || n > len(b) {
			return nil, syscall.EINVAL
		}
		values[a.Type&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER)] = b[unix.SizeofRtAttr:n]
		b = b[min((n+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(b)):]
	}
	return values, nil
}

// nldev returns the message type of a command about devices.
func nldev(command uint16) uint16 { return nl.RDMA_NL_NLDEV<<nl.RDMA_NL_GET_CLIENT_SHIFT | command }

// netlinkMessage builds a message with the type and the number of a request.
func netlinkMessage(h *unix.NlMsghdr, flags uint16, parts ...[]byte) []byte {
	r := unix.NlMsghdr{Type: h.Type, Flags: flags, Seq: h.Seq, Pid: h.Pid}
	b := make([]byte, uapi.Size[unix.NlMsghdr]())
	for _, p := range parts {
		b = append(b, p...)
	}
	r.Len = uint32(len(b))
	copy(b, uapi.Bytes(&r))
	return b
}

// netlinkError refuses a request, or with 0 acknowledges it.
func netlinkError(h *unix.NlMsghdr, no syscall.Errno) []byte {
	e := *h
	e.Type = unix.NLMSG_ERROR
	return netlinkMessage(&e, 0, nl.Uint32Attr(uint32(-int32(no))), uapi.Bytes(h))
}

func attr8(kind int, v uint8) []byte   { return nl.NewRtAttr(kind, []byte{v}).Serialize() }
func attr32(kind int, v uint32) []byte { return nl.NewRtAttr(kind, nl.Uint32Attr(v)).Serialize() }
func attrText(kind int, text string) []byte {
	return nl.NewRtAttr(kind, nl.ZeroTerminated(text)).Serialize()
}

func attr64(kind int, v uint64) []byte {
	return nl.NewRtAttr(kind, binary.NativeEndian.AppendUint64(nil, v)).Serialize()
}

// netlinkIndex returns the device that a request names, or nil.
func (s *Server) netlinkIndex(in map[uint16][]byte) (*device.Device, error) {
	a, ok := in[nl.RDMA_NLDEV_ATTR_DEV_INDEX]
	if !ok {
		return nil, nil
	}
	if len(a) < 4 {
		return nil, syscall.EINVAL
	}
	if i := binary.NativeEndian.Uint32(a); i < uint32(len(s.devices)) {
		return s.devices[i], nil
	}
	return nil, syscall.EINVAL
}

// netlinkDevices describes one device or all.
func (s *Server) netlinkDevices(h *unix.NlMsghdr, in map[uint16][]byte, dump bool) (list [][]byte, _ error) {
	if dump {
		for _, d := range s.devices {
			list = append(list, netlinkDevice(d, h, unix.NLM_F_MULTI))
		}
		return list, nil
	}
	d, err := s.netlinkIndex(in)
	if err != nil || d == nil {
		return nil, syscall.EINVAL
	}
	return [][]byte{netlinkDevice(d, h, 0)}, nil
}

// netlinkDevice describes a device.
func netlinkDevice(d *device.Device, h *unix.NlMsghdr, flags uint16) []byte {
	q := d.Verbs.Query()
	kind, protocol := uint8(1), "roce" // of node: CA
	switch {
	case d.Adapter.IWARP():
		kind, protocol = 4, "iw" // RNIC
	case d.Fabric != nil:
		protocol = "ib"
	}
	return netlinkMessage(h, flags,
		attr32(nl.RDMA_NLDEV_ATTR_DEV_INDEX, uint32(d.Index)), attrText(nl.RDMA_NLDEV_ATTR_DEV_NAME, d.Name),
		attr32(nl.RDMA_NLDEV_ATTR_PORT_INDEX, 1), // the last one
		attr64(nl.RDMA_NLDEV_ATTR_NODE_GUID, uint64(q.NodeGUID)), attr64(nl.RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, uint64(q.SysImageGUID)),
		attr8(nl.RDMA_NLDEV_ATTR_DEV_NODE_TYPE, kind), attrText(nldevProtocol, protocol))
}

// netlinkPorts describes the port of a device, which has one.
func (s *Server) netlinkPorts(h *unix.NlMsghdr, in map[uint16][]byte, dump bool) ([][]byte, error) {
	d, err := s.netlinkIndex(in)
	if err != nil || d == nil {
		return nil, syscall.EINVAL
	}
	flags := uint16(0)
	if dump {
		flags = unix.NLM_F_MULTI
	}
	p, err := d.Port(1)
	if err != nil {
		return nil, err
	}
	parts := [][]byte{
		attr32(nl.RDMA_NLDEV_ATTR_DEV_INDEX, uint32(d.Index)), attrText(nl.RDMA_NLDEV_ATTR_DEV_NAME, d.Name), attr32(nl.RDMA_NLDEV_ATTR_PORT_INDEX, 1),
		attr8(nl.RDMA_NLDEV_ATTR_PORT_STATE, p.State), attr8(nl.RDMA_NLDEV_ATTR_PORT_PHYS_STATE, p.PhysState),
	}
	if d.Fabric != nil {
		parts = append(parts,
			attr64(nl.RDMA_NLDEV_ATTR_CAP_FLAGS, uint64(p.PortCapFlags)), attr64(nl.RDMA_NLDEV_ATTR_SUBNET_PREFIX, d.Fabric.Info().PortInfo.GIDPrefix),
			attr32(nl.RDMA_NLDEV_ATTR_LID, uint32(p.LID)), attr32(nl.RDMA_NLDEV_ATTR_SM_LID, uint32(p.SMLID)), attr8(nl.RDMA_NLDEV_ATTR_LMC, p.LMC))
	} else {
		parts = append(parts, attr32(nldevInterface, uapi.ZoneIndex(d.Verbs.Name())), attrText(nl.RDMA_NLDEV_ATTR_NDEV_NAME, d.Verbs.Name()))
	}
	return [][]byte{netlinkMessage(h, flags, parts...)}, nil
}

// netlinkChardev describes the device file of a kind.
func (s *Server) netlinkChardev(h *unix.NlMsghdr, in map[uint16][]byte) ([][]byte, error) {
	d, err := s.netlinkIndex(in)
	if err != nil {
		return nil, err
	}
	file := func(name string, abi, rdev uint64, more ...[]byte) [][]byte {
		parts := [][]byte{attr64(nldevChardev, hugeDev(rdev)), attr64(nldevChardevABI, abi), attrText(nldevChardevName, name)}
		return [][]byte{netlinkMessage(h, 0, append(parts, more...)...)}
	}
	switch kind := unix.ByteSliceToString(in[nldevChardevType]); {
	case kind == "uverbs" && d != nil:
		return file(d.FileName(), 1, d.DeviceNumber(), attr32(nldevDriverID, d.Driver.ID)), nil
	case kind == "rdma_cm" && d == nil:
		return file("rdma_cm", cmABI, cmRdev), nil
	}
	return nil, syscall.EOPNOTSUPP
}

// hugeDev encodes the number of a device as the kernel does (huge_encode_dev).
func hugeDev(rdev uint64) uint64 {
	major, minor := uint64(unix.Major(rdev)), uint64(unix.Minor(rdev))
	return minor&0xff | major<<8 | minor&^0xff<<12
}
