//go:build linux

package uverbs

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/object"
	"softrdma/internal/rdmanl"
	"softrdma/internal/unixmsg"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
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
	s.conns[own] = true
	s.runtime.Running.Add(1)
	uid := p.UID
	go func() {
		defer s.runtime.Running.Done()
		serveNetlink(view{s, uid}, own)
		s.mu.Lock()
		delete(s.conns, own)
		s.mu.Unlock()
		_ = own.Close()
		p.Account.Descriptors.Return(1)
	}()
	return nil
}

func serveNetlink(v view, c *net.UnixConn) {
	b := make([]byte, maxNetlink)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		for _, m := range rdmanl.Answer(v, b[:n]) {
			if _, err := c.Write(m); err != nil {
				return
			}
		}
	}
}

// tellRemoved reports the end of all devices, as the kernel does to sockets in the group of
// notifications. Every socket gets that: the server does not know which ones have joined, and no
// other messages follow.
func tellRemoved(v view, c *net.UnixConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for _, m := range rdmanl.Removed(v) {
			_ = unix.Send(int(fd), m, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) // a reader that lags misses it
		}
	})
}

// A view is what programs of a user see of a server. It implements rdmanl.Source.
type view struct {
	s   *Server
	uid uint32
}

// Objects implements rdmanl.Source.
func (v view) Objects(index int) *object.List { return v.s.objects(v.s.devices[index], v.sees) }

// sees reports whether programs of the view's user see the objects of another user's.
func (v view) sees(uid uint32) bool {
	return v.uid == 0 || v.uid == uid || v.uid == uint32(os.Geteuid())
}

// Devices implements rdmanl.Source.
func (v view) Devices() (list []rdmanl.Device) {
	for _, d := range v.s.devices {
		q := d.Verbs.Query()
		x := rdmanl.Device{
			Name: d.Name, NodeType: 1, Protocol: "roce", Caps: d.Caps(),
			NodeGUID: uint64(q.NodeGUID), SysImageGUID: uint64(q.SysImageGUID),
		}
		switch {
		case d.Adapter.IWARP():
			x.NodeType, x.Protocol = 4, "iw" // RNIC
		case d.Fabric != nil:
			x.Protocol = "ib"
		}
		list = append(list, x)
	}
	return list
}

// Port implements rdmanl.Source.
func (v view) Port(index int) rdmanl.Port {
	d := v.s.devices[index]
	p, _ := d.Port(1) // which there is
	r := rdmanl.Port{State: p.State, PhysState: p.PhysState}
	if d.Fabric != nil {
		r.InfiniBand = &rdmanl.InfiniBandPort{
			CapFlags: uint64(p.PortCapFlags), SubnetPrefix: d.Fabric.Info().PortInfo.GIDPrefix,
			LID: uint32(p.LID), SMLID: uint32(p.SMLID), LMC: p.LMC,
		}
		return r
	}
	r.Interface, r.InterfaceIndex = d.Verbs.Name(), uapi.ZoneIndex(d.Verbs.Name())
	return r
}

// Statistics implements rdmanl.Source.
func (v view) Statistics(index int) []rdmanl.Statistic {
	d := v.s.devices[index]
	c := v.s.count(d)
	return append([]rdmanl.Statistic{{Name: "link_downed", Value: uint64(v.s.links.look(d))}}, c.statistics()...)
}

// Chardev implements rdmanl.Source.
func (v view) Chardev(kind string, index int) (rdmanl.Chardev, bool) {
	switch {
	case kind == "uverbs" && index >= 0:
		d := v.s.devices[index]
		return rdmanl.Chardev{Name: d.FileName(), ABI: 1, Number: hugeDev(d.DeviceNumber()), DriverID: &d.Driver.ID}, true
	case kind == cmName && index < 0:
		return rdmanl.Chardev{Name: cmName, ABI: cmABI, Number: hugeDev(cmRdev)}, true
	}
	return rdmanl.Chardev{}, false
}

// hugeDev encodes the number of a device as the kernel does (huge_encode_dev).
func hugeDev(rdev uint64) uint64 {
	major, minor := uint64(unix.Major(rdev)), uint64(unix.Minor(rdev))
	return minor&0xff | major<<8 | minor&^0xff<<12
}
