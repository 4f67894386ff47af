//go:build linux

package uverbs

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"softrdma/internal/rdmanl"
	"softrdma/internal/wire/uapi"
)

func attr8(kind int, v uint8) []byte   { return nl.NewRtAttr(kind, []byte{v}).Serialize() }
func attr32(kind int, v uint32) []byte { return nl.NewRtAttr(kind, nl.Uint32Attr(v)).Serialize() }
func attrText(kind int, text string) []byte {
	return nl.NewRtAttr(kind, nl.ZeroTerminated(text)).Serialize()
}

// askNetlink writes a request on a socket of RDMA's netlink and reads messages up to the
// one that ends the answer.
func askNetlink(t *testing.T, fd int, kind, flags uint16, attrs ...[]byte) (list []syscall.NetlinkMessage) {
	t.Helper()
	h := unix.NlMsghdr{Type: kind, Flags: unix.NLM_F_REQUEST | flags, Seq: 77, Pid: 5}
	if _, err := unix.Write(fd, netlinkRequest(&h, attrs...)); err != nil {
		t.Fatal(err)
	}
	for b := make([]byte, 4096); ; {
		n, err := unix.Read(fd, b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := syscall.ParseNetlinkMessage(b[:n])
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got {
			if m.Header.Seq != 77 || m.Header.Pid != 5 {
				t.Errorf("found %+v", m.Header)
			}
			m.Data = append([]byte(nil), m.Data...)
			list = append(list, m)
			if m.Header.Flags&unix.NLM_F_MULTI == 0 || m.Header.Type == unix.NLMSG_DONE {
				return list
			}
		}
	}
}

func netlinkRequest(h *unix.NlMsghdr, attrs ...[]byte) []byte {
	b := uapi.Bytes(h)
	for _, a := range attrs {
		b = append(b, a...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	return b
}

func attrsOf(t *testing.T, m syscall.NetlinkMessage) map[uint16][]byte {
	t.Helper()
	parsed, err := nl.ParseRouteAttrAsMap(m.Data)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[uint16][]byte)
	for k, a := range parsed {
		all[k] = a.Value
	}
	return all
}

// netlinkSocket opens one as the preloaded library does.
func netlinkSocket(t *testing.T, s *Server) int {
	t.Helper()
	p, fds := newTestClient(t, s).send(uapi.Request{Op: uapi.OpNetlink}, nil)
	if p.Result != 0 || len(fds) != 1 {
		t.Fatalf("%+v with %d descriptors", p, len(fds))
	}
	t.Cleanup(func() { unix.Close(fds[0]) })
	return fds[0]
}

// A program that waits for notifications, as rdma monitor, is told that the devices end, and then gets the end
// of the file.
func TestNetlinkReportsTheEndOfDevices(t *testing.T) {
	s := newServer(t, "127.14.7.3")
	fd := netlinkSocket(t, s)
	askNetlink(t, fd, rdmanl.CmdSysGet.Type(), 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	for _, want := range []byte{rdmanl.EventNetdevDetach, rdmanl.EventUnregister} {
		n, err := unix.Read(fd, b)
		if err != nil {
			t.Fatal(err)
		}
		m, err := syscall.ParseNetlinkMessage(b[:n])
		if err != nil || len(m) != 1 || m[0].Header.Type != rdmanl.CmdMonitor.Type() || attrsOf(t, m[0])[rdmanl.AttrEventType][0] != want {
			t.Errorf("%v, %+v, expected event %d", err, m, want)
		}
	}
	if n, err := unix.Read(fd, b); n != 0 || err != nil {
		t.Errorf("%d bytes, %v, expected the end", n, err)
	}
}

func TestNetlinkReportsDevicesAndTheirDrivers(t *testing.T) {
	s := newServer(t, "127.14.7.1 iwarp:127.14.7.2")
	fd := netlinkSocket(t, s)
	list := askNetlink(t, fd, rdmanl.CmdGet.Type(), unix.NLM_F_DUMP)
	if len(list) != 3 || list[2].Header.Type != unix.NLMSG_DONE {
		t.Fatalf("%d messages", len(list))
	}
	for i, want := range []struct {
		name, protocol string
		node           byte
		driver         uint32
	}{{"rxe0", "roce", 1, 14}, {"siw0", "iw", 4, 18}} {
		a := attrsOf(t, list[i])
		guid := s.devices[i].GUID()
		if unix.ByteSliceToString(a[nl.RDMA_NLDEV_ATTR_DEV_NAME]) != want.name || unix.ByteSliceToString(a[rdmanl.AttrDevProtocol]) != want.protocol ||
			a[nl.RDMA_NLDEV_ATTR_DEV_NODE_TYPE][0] != want.node || binary.NativeEndian.Uint64(a[nl.RDMA_NLDEV_ATTR_NODE_GUID]) != binary.BigEndian.Uint64(guid[:]) {
			t.Errorf("device %d: %v", i, a)
		}
		index := attr32(nl.RDMA_NLDEV_ATTR_DEV_INDEX, binary.NativeEndian.Uint32(a[nl.RDMA_NLDEV_ATTR_DEV_INDEX]))
		one := askNetlink(t, fd, rdmanl.CmdGet.Type(), 0, index)
		if got := unix.ByteSliceToString(attrsOf(t, one[0])[nl.RDMA_NLDEV_ATTR_DEV_NAME]); got != want.name {
			t.Errorf("device %d is reported as %q", i, got)
		}
		port := attrsOf(t, askNetlink(t, fd, rdmanl.CmdPortGet.Type(), 0, index)[0])
		if port[nl.RDMA_NLDEV_ATTR_PORT_STATE][0] != 4 || port[nl.RDMA_NLDEV_ATTR_PORT_PHYS_STATE][0] != 5 ||
			unix.ByteSliceToString(port[nl.RDMA_NLDEV_ATTR_NDEV_NAME]) != "lo" {
			t.Errorf("port of device %d: %v", i, port)
		}
		file := attrsOf(t, askNetlink(t, fd, rdmanl.CmdGetChardev.Type(), 0, index, attrText(rdmanl.AttrChardevType, "uverbs"))[0])
		if unix.ByteSliceToString(file[rdmanl.AttrChardevName]) != s.devices[i].FileName() || binary.NativeEndian.Uint32(file[rdmanl.AttrDriverID]) != want.driver ||
			binary.NativeEndian.Uint64(file[rdmanl.AttrChardev]) != uint64(231<<8|192+i) || binary.NativeEndian.Uint64(file[rdmanl.AttrChardevABI]) != 1 {
			t.Errorf("device file %d: %v", i, file)
		}
	}
	file := attrsOf(t, askNetlink(t, fd, rdmanl.CmdGetChardev.Type(), 0, attrText(rdmanl.AttrChardevType, "rdma_cm"))[0])
	if unix.ByteSliceToString(file[rdmanl.AttrChardevName]) != "rdma_cm" || binary.NativeEndian.Uint64(file[rdmanl.AttrChardev]) != 10<<8|59 {
		t.Errorf("connection management: %v", file)
	}
	if a := attrsOf(t, askNetlink(t, fd, rdmanl.CmdSysGet.Type(), 0)[0]); a[rdmanl.AttrCopyOnFork][0] != 1 {
		t.Errorf("system: %v", a)
	}
}

func TestNetlinkRefusesUnknownRequests(t *testing.T) {
	s := newServer(t, "127.14.7.3")
	fd := netlinkSocket(t, s)
	index := attr32(nl.RDMA_NLDEV_ATTR_DEV_INDEX, 0)
	for name, x := range map[string]struct {
		kind  uint16
		attrs [][]byte
		want  syscall.Errno
	}{
		"another command":           {rdmanl.Command(3).Type(), nil, syscall.EOPNOTSUPP},
		"another client":            {2<<10 | 1, nil, syscall.EOPNOTSUPP},
		"no device":                 {rdmanl.CmdGet.Type(), nil, syscall.EINVAL},
		"a device that is not":      {rdmanl.CmdGet.Type(), [][]byte{attr32(nl.RDMA_NLDEV_ATTR_DEV_INDEX, 9)}, syscall.EINVAL},
		"the port of no device":     {rdmanl.CmdPortGet.Type(), nil, syscall.EINVAL},
		"a short index":             {rdmanl.CmdGet.Type(), [][]byte{attr8(nl.RDMA_NLDEV_ATTR_DEV_INDEX, 0)}, syscall.EINVAL},
		"another file":              {rdmanl.CmdGetChardev.Type(), [][]byte{index, attrText(rdmanl.AttrChardevType, "umad")}, syscall.EOPNOTSUPP},
		"an attribute out of range": {rdmanl.CmdGet.Type(), [][]byte{{0xff, 0, 1, 0}}, syscall.EINVAL},
	} {
		m := askNetlink(t, fd, x.kind, 0, x.attrs...)[0]
		if m.Header.Type != unix.NLMSG_ERROR || syscall.Errno(-int32(binary.NativeEndian.Uint32(m.Data))) != x.want {
			t.Errorf("%s: type %d, % x", name, m.Header.Type, m.Data)
		}
	}
}

// withoutPadding takes the last byte of a request.
func withoutPadding(b []byte) []byte {
	binary.NativeEndian.PutUint32(b, uint32(len(b)-1))
	return b[:len(b)-1]
}

func TestNetlinkNeedsNoPaddingOfTheLastAttribute(t *testing.T) {
	s := newServer(t, "127.14.7.4")
	h := unix.NlMsghdr{Type: rdmanl.CmdGetChardev.Type()}
	b := withoutPadding(netlinkRequest(&h, attr32(nl.RDMA_NLDEV_ATTR_DEV_INDEX, 0), attrText(rdmanl.AttrChardevType, "uverbs")))
	got, err := syscall.ParseNetlinkMessage(rdmanl.Answer(view{s: s}, b)[0])
	if err != nil || len(got) != 1 || got[0].Header.Type != h.Type || len(attrsOf(t, got[0])[rdmanl.AttrChardevName]) == 0 {
		t.Errorf("answered %+v, %v", got, err)
	}
}

// FuzzNetlink asks anything.
func FuzzNetlink(f *testing.F) {
	h := unix.NlMsghdr{Type: rdmanl.CmdGet.Type(), Flags: unix.NLM_F_DUMP}
	f.Add(netlinkRequest(&h))
	h = unix.NlMsghdr{Type: rdmanl.CmdGetChardev.Type()}
	f.Add(netlinkRequest(&h, attr32(nl.RDMA_NLDEV_ATTR_DEV_INDEX, 0), attrText(rdmanl.AttrChardevType, "uverbs")))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add(withoutPadding(netlinkRequest(&h, attrText(rdmanl.AttrChardevType, "uverbs"))))
	pid := os.Getpid() // several processes fuzz at a time
	s := newServer(f, fmt.Sprintf("127.17.%d.%d", pid>>8&0xff, 1+pid&0x7f))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range rdmanl.Answer(view{s: s}, b) {
			if _, err := syscall.ParseNetlinkMessage(m); err != nil {
				t.Errorf("answered % x: %v", m, err)
			}
		}
	})
}
