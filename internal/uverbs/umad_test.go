//go:build linux

package uverbs

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/perf"
	"softrdma/internal/wire/uapi"
)

// madFile is an open file of management datagrams with an agent.
type madFile struct{ *devFile }

func openMAD(t testing.TB, s *Server, methods ...uint8) madFile {
	f := madFile{newTestClient(t, s).open("umad0")}
	r := uapi.MADRegister2{QPN: 1, Class: 0x34, Version: 1, OUI: 0x010203}
	for _, m := range methods {
		r.Methods[m/8] |= 1 << (m % 8)
	}
	if no := f.ioctl(uapi.MADRegisterAgent2, uapi.Bytes(&r)); no != 0 {
		t.Fatal(no)
	}
	return f
}

// ioctl passes a structure, which is overwritten with what the server stores in it.
func (f madFile) ioctl(number uint64, b []byte) syscall.Errno {
	f.t.Helper()
	arg := f.alloc(len(b))
	copy(arg, b)
	p, _ := f.send(uapi.Request{Op: uapi.OpIoctl, File: f.id, Arg: [4]uint64{number, addrOf(arg)}}, nil)
	copy(b, arg)
	return syscall.Errno(-p.Result)
}

// read waits until the file is readable, and reads as the library does.
func (f madFile) read() (uapi.MADHeader, []byte) {
	f.t.Helper()
	h, data, _ := f.receive()
	return h, data
}

// receive is read, and reports whether the datagram had to be asked for.
func (f madFile) receive() (h uapi.MADHeader, data []byte, asked bool) {
	f.t.Helper()
	fds := []unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLIN}}
	eventually(f.t, "something to read", func() bool {
		n, _ := unix.Poll(fds, 100)
		return n == 1
	})
	buf := make([]byte, 320)
	n, err := unix.Read(f.fd, buf)
	if asked = n == 1; asked {
		buf = f.alloc(320)
		p, _ := f.send(uapi.Request{Op: uapi.OpRead, File: f.id, Arg: [4]uint64{addrOf(buf), 320}}, nil)
		n = int(p.Result)
	}
	h, ok := uapi.Parse[uapi.MADHeader](buf)
	if n != 320 || err != nil || !ok {
		f.t.Fatalf("read: %d, %v", n, err)
	}
	return h, buf[64:], asked
}

func TestManagementDatagramsCrossTheNetwork(t *testing.T) {
	const peer = "127.14.19.1"
	server := openMAD(t, newServer(t, peer), mad.MethodGet)
	asks := openMAD(t, newServer(t, "127.14.19.2"))
	h := uapi.MADHeader{TimeoutMS: 1000, Retries: 10, QPN: [4]byte{3: 1}, GRHPresent: 1, HopLimit: 9, TrafficClass: 0x20, GID: netip.MustParseAddr(peer).As16()}
	var b [mad.Len]byte
	(&mad.Header{BaseVersion: 1, Class: 0x34, ClassVersion: 1, Method: mad.MethodGet, TID: 7}).Put(&b)
	copy(b[37:], "\x01\x02\x03hello")
	if n, _, _ := asks.write(slices.Concat(uapi.Bytes(&h), b[:])); n != 320 {
		t.Fatal(syscall.Errno(-n))
	}
	got, data := server.read()
	if got.GRHPresent != 1 || got.GID != netip.MustParseAddr("127.14.19.2").As16() || got.HopLimit != 64 || got.TrafficClass != 0x20 ||
		got.QPN != [4]byte{3: 1} || got.Length != 320 || !strings.HasPrefix(string(data[40:]), "hello") {
		t.Fatalf("request %+v % x", got, data)
	}
	data[3] |= mad.ResponseBit
	if n, _, _ := server.write(slices.Concat(uapi.Bytes(&got), data)); n != 320 {
		t.Fatal(syscall.Errno(-n))
	}
	if got, data := asks.read(); got.Status != 0 || data[3] != mad.MethodGetResponse || !strings.HasPrefix(string(data[40:]), "hello") {
		t.Errorf("response %+v % x", got, data)
	}
	if p, _ := asks.send(uapi.Request{Op: uapi.OpRead, File: asks.id, Arg: [4]uint64{0, 320}}, nil); p.Result != -int64(syscall.EAGAIN) || p.Flags != 0 {
		t.Errorf("read of nothing: %+v", p)
	}
	h.GRHPresent = 0 // Ethernet has no LIDs
	if n, _, _ := asks.write(slices.Concat(uapi.Bytes(&h), b[:])); n != -int64(syscall.EINVAL) {
		t.Errorf("without a GRH: %d", n)
	}
}

// TestManagementDatagramsAreReadWithoutTheServer: a call to the server for each would cost a
// subnet manager most of its time.
func TestManagementDatagramsAreReadWithoutTheServer(t *testing.T) {
	const peer, count = "127.14.19.5", 200
	server := openMAD(t, newServer(t, peer), mad.MethodGet)
	asks := openMAD(t, newServer(t, "127.14.19.6"))
	h := uapi.MADHeader{QPN: [4]byte{3: 1}, GRHPresent: 1, GID: netip.MustParseAddr(peer).As16()}
	var b [mad.Len]byte
	(&mad.Header{BaseVersion: 1, Class: 0x34, ClassVersion: 1, Method: mad.MethodGet}).Put(&b)
	copy(b[37:], "\x01\x02\x03")
	calls := 0
	for burst := 1; burst <= count; burst *= 2 { // those of the longer ones do not all fit
		for i := range burst {
			b[40] = byte(i)
			if n, _, _ := asks.write(slices.Concat(uapi.Bytes(&h), b[:])); n != 320 {
				t.Fatal(syscall.Errno(-n))
			}
		}
		for i := range burst {
			_, data, asked := server.receive()
			if data[40] != byte(i) {
				t.Fatalf("datagram %d of %d: found %d", i, burst, data[40])
			}
			if asked {
				calls++
			}
		}
	}
	if calls == 0 || calls > count/16 {
		t.Errorf("%d calls to read, expected 1 to %d", calls, count/16)
	}
}

func TestManagementFileObeysItsIoctls(t *testing.T) {
	s := newServer(t, "127.14.19.3")
	f := madFile{newTestClient(t, s).open("umad0")}
	old := uapi.MADRegister{QPN: 1}
	flags := uapi.MADRegister2{QPN: 1, Flags: 5}
	for _, c := range []struct {
		name   string
		number uint64
		arg    []byte
		want   syscall.Errno
	}{
		{"an unknown ioctl", 0x1b09, nil, syscall.ENOTTY},
		{"queue pair 2", uapi.MADRegisterAgent, uapi.Bytes(&uapi.MADRegister{QPN: 2}), syscall.EINVAL},
		{"requests of queue pair 0", uapi.MADRegisterAgent, uapi.Bytes(&uapi.MADRegister{Class: 1, Version: 1, Methods: uapi.MADMethods{2}}), syscall.EPROTONOSUPPORT},
		{"unknown flags", uapi.MADRegisterAgent2, uapi.Bytes(&flags), syscall.EINVAL},
		{"an OUI out of range", uapi.MADRegisterAgent2, uapi.Bytes(&uapi.MADRegister2{QPN: 1, Class: 0x34, OUI: 1 << 24}), syscall.EINVAL},
		{"P_Key indexes", uapi.MADEnablePKey, nil, 0},
		{"an agent", uapi.MADRegisterAgent, uapi.Bytes(&old), 0},
		{"P_Key indexes too late", uapi.MADEnablePKey, nil, syscall.EINVAL},
		{"no such agent", uapi.MADUnregisterAgent, []byte{1, 0, 0, 0}, syscall.EINVAL},
		{"an agent out of range", uapi.MADUnregisterAgent, []byte{0, 0, 0, 0x80}, syscall.EINVAL},
		{"its end", uapi.MADUnregisterAgent, binary.NativeEndian.AppendUint32(nil, old.ID), 0},
	} {
		if no := f.ioctl(c.number, c.arg); no != c.want {
			t.Errorf("%s: %v, expected %v", c.name, no, c.want)
		}
	}
	if flags.Flags != 0 {
		t.Errorf("known flags: %#x", flags.Flags)
	}
	if p, _ := f.send(uapi.Request{Op: uapi.OpIoctl, File: f.id, Arg: [4]uint64{uapi.MADRegisterAgent, 8}}, nil); p.Result != -int64(syscall.EFAULT) {
		t.Errorf("a structure at no address: %+v", p)
	}
}

func TestManagementFileIsOfItsUserAndRoot(t *testing.T) {
	s := newServer(t, "127.14.19.4 iwarp:127.14.19.4")
	other := uint32(os.Geteuid()) + 1
	p := &client.Process{PID: os.Getpid(), UID: other, GID: other, Account: s.admission.Account(other)}
	if err := s.files.Open(p, "umad0", &client.Answer{}); !errors.Is(err, syscall.EACCES) {
		t.Errorf("opened by another user: %v", err)
	}
	for name, want := range map[string]string{
		"abi_version": "5\n", "umad0/ibdev": "rxe0\n", "umad0/port": "1\n", "umad0/dev": "231:0\n",
		"umad1/ibdev": "", "issm0/ibdev": "", // of iWARP, and of ports without queue pair 0
	} {
		b, err := os.ReadFile(filepath.Join(s.Tree(), "sys/class/infiniband_mad", name))
		if string(b) != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// The port of a RoCE device answers performance management as perfquery asks: without an address, after
// registering for all classes.
func TestPortOfRoCETellsItsCounters(t *testing.T) {
	s := newServer(t, "127.14.19.5")
	x, y := newPair(t, s)
	exercise(t, x, y)
	f := madFile{newTestClient(t, s).open("umad0")}
	subnet, performance := uapi.MADRegister{Class: mad.ClassLIDRouted, Version: 1}, uapi.MADRegister{QPN: 1, Class: mad.ClassPerformance, Version: 1}
	if no := f.ioctl(uapi.MADEnablePKey, nil); no != 0 {
		t.Fatal(no)
	}
	for _, r := range []*uapi.MADRegister{&subnet, &performance} {
		if no := f.ioctl(uapi.MADRegisterAgent, uapi.Bytes(r)); no != 0 {
			t.Fatal(no)
		}
	}
	ask := func(h mad.Header, qpn uint8, id uint32) int64 {
		b := [mad.Len]byte{}
		h.BaseVersion, h.ClassVersion, h.TID = 1, 1, 5
		h.Put(&b)
		perf.SetPortSelect((*[perf.DataLen]byte)(b[perf.DataAt:]), 1)
		n, _, _ := f.write(slices.Concat(uapi.Bytes(&uapi.MADHeader{ID: id, TimeoutMS: 1000, QPN: [4]byte{3: qpn}}), b[:]))
		return n
	}
	if n := ask(mad.Header{Class: mad.ClassPerformance, Method: mad.MethodGet, Attribute: perf.AttrPortCountersExtended}, 1, performance.ID); n != 320 {
		t.Fatal(syscall.Errno(-n))
	}
	h, data := f.read()
	c := s.count(s.devices[0])
	want := map[string]uint64{
		"PortXmitData": c.traffic.Sent / wordBytes, "PortRcvData": c.traffic.Received / wordBytes,
		"PortXmitPkts": c.traffic.SentPackets, "PortRcvPkts": c.traffic.ReceivedPackets,
	}
	for _, x := range perf.Counters(perf.AttrPortCountersExtended) {
		got := x.Get((*[perf.DataLen]byte)(data[perf.DataAt:]))
		if w, ok := want[x.Name]; ok && (got != w || w == 0) {
			t.Errorf("%s: %d, expected %d", x.Name, got, w)
		}
		delete(want, x.Name)
	}
	if h.Status != 0 || len(want) > 0 {
		t.Errorf("status %d, without %v", h.Status, want)
	}
	if n := ask(mad.Header{Class: mad.ClassLIDRouted, Method: mad.MethodGet, Attribute: 0x11}, 0, subnet.ID); n != -int64(syscall.EPROTONOSUPPORT) {
		t.Errorf("a request to queue pair 0: %d, expected %d", n, -int64(syscall.EPROTONOSUPPORT))
	}
}
