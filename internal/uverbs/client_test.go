//go:build linux

package uverbs

import (
	"encoding/binary"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/testenv"
	"softrdma/internal/uverbs/program"
	"softrdma/internal/wire/uapi"
	"softrdma/verbs"
)

// timeLimit is how long a test waits for what must happen.
const timeLimit = 20 * time.Second

// newServer serves a device on a loopback address of this test's own, or several:
// their names as verbs.Open has them, with spaces between them.
func newServer(t testing.TB, addr string) *Server {
	t.Helper()
	return newServerOf(t, addr, Config{})
}

// newServerOf is newServer with a configuration. It sets the devices and the folder.
func newServerOf(t testing.TB, addr string, cfg Config) *Server {
	t.Helper()
	for name := range strings.FieldsSeq(addr) {
		device := verbs.Config{Shared: true}
		name, secure := strings.CutPrefix(name, "tls+")
		if secure {
			secret, err := verbs.SharedSecret([]byte("thirty-two bytes of a test secret"))
			if err != nil {
				t.Fatal(err)
			}
			device.TLS = secret
		}
		dev, err := verbs.Open(name, device)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Devices = append(cfg.Devices, dev)
	}
	cfg.Dir = testenv.SocketDir(t)
	s, err := Serve(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if d, m, b := s.admission.Held(); d != 0 || m != 0 || b != 0 {
			t.Errorf("users hold %d descriptors, %d mappings and %d bytes", d, m, b)
		}
		for _, dev := range cfg.Devices {
			if c := dev.Counts(); c != (verbs.Counts{}) {
				t.Errorf("device %v has %+v left", dev.Addr(), c)
			}
			dev.Close()
		}
	})
	return s
}

// A testClient plays the preloaded library and the provider: commands as bytes, in
// memory that the server reaches by this process's number.
type testClient struct {
	t    testing.TB
	conn *net.UnixConn
	mem  []byte // does not move
	used int

	engine    *program.Engine // takes the calls in place of conn, if not nil
	deferrals []seenPlace     // which doorbells the engine can do without
	text      string          // that came with the last reply
}

func newTestClient(t testing.TB, s *Server) *testClient {
	t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: s.Socket(), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	c := &testClient{t: t, conn: conn, mem: mem}
	t.Cleanup(func() {
		conn.Close()
		unix.Munmap(mem)
	})
	return c
}

func (c *testClient) alloc(n int) []byte {
	c.used = (c.used + 63) &^ 63
	b := c.mem[c.used:][:n:n]
	c.used += n
	return b
}

func addrOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// send does one forwarded call.
func (c *testClient) send(r uapi.Request, data []byte) (uapi.Reply, []int) {
	c.t.Helper()
	if r.Version == 0 {
		r.Version = uapi.Protocol
	}
	if c.engine != nil {
		return c.engine.Call(&r, data)
	}
	if _, _, err := c.conn.WriteMsgUnix(append(append([]byte(nil), uapi.Bytes(&r)...), data...), nil, nil); err != nil {
		c.t.Fatal(err)
	}
	buf, oob := make([]byte, 1024), make([]byte, 256)
	n, on, _, _, err := c.conn.ReadMsgUnix(buf, oob)
	if err != nil {
		c.t.Fatal(err)
	}
	p, ok := uapi.Parse[uapi.Reply](buf[:n])
	if !ok {
		c.t.Fatalf("answer of %d bytes", n)
	}
	c.text = string(buf[uapi.Size[uapi.Reply]():n])
	var fds []int
	list, _ := unix.ParseSocketControlMessage(oob[:on])
	for i := range list {
		if x, err := unix.ParseUnixRights(&list[i]); err == nil {
			fds = append(fds, x...)
		}
	}
	return p, fds
}

// A device is an open device file.
type devFile struct {
	*testClient
	id uint64
	fd int
}

func (c *testClient) open(name string) *devFile {
	c.t.Helper()
	p, fds := c.send(uapi.Request{Op: uapi.OpOpen}, []byte(name))
	if p.Result < 0 || len(fds) != 1 || p.Rdev == 0 {
		c.t.Fatalf("open: %+v with %d descriptors", p, len(fds))
	}
	f := &devFile{c, p.File, fds[0]}
	c.t.Cleanup(func() { unix.Close(f.fd) })
	return f
}

// write writes a command; a number below 0 is an error's.
func (f *devFile) write(b []byte) (int64, []int, uapi.Reply) {
	f.t.Helper()
	buf := f.alloc(len(b))
	copy(buf, b)
	data := buf[:min(len(buf), uapi.MaxData)]
	p, fds := f.send(uapi.Request{Op: uapi.OpWrite, File: f.id, Arg: [4]uint64{addrOf(buf), uint64(len(b))}}, data)
	return p.Result, fds, p
}

// command writes a legacy command whose structure begins with the address of
// its answer where out is not 0, and gives errno, answer and descriptors.
func (f *devFile) command(number uint32, core []byte, driver []byte, out int) (syscall.Errno, []byte, []int) {
	f.t.Helper()
	var to []byte
	if out > 0 {
		to = f.alloc(out)
		clear(to)
		binary.NativeEndian.PutUint64(core, addrOf(to))
	}
	body := append(append([]byte(nil), core...), driver...)
	h := uapi.CmdHeader{Command: number, InWords: uint16((8 + len(body)) / 4), OutWords: uint16(out / 4)}
	n, fds, _ := f.write(append(uapi.Bytes(&h), body...))
	if n < 0 {
		return syscall.Errno(-n), nil, nil
	}
	return 0, to, fds
}

// do is command that must succeed, and takes the answer apart.
func do[T any](f *devFile, number uint32, core []byte, out int) (T, []byte, []int) {
	f.t.Helper()
	no, b, fds := f.command(number, core, nil, out)
	if no != 0 {
		f.t.Fatalf("command %d: %v", number, no)
	}
	v, _ := uapi.Parse[T](b)
	return v, b, fds
}

// mmap maps what lies at an offset of the file.
func (f *devFile) mmap(mi uapi.MmInfo) []byte {
	f.t.Helper()
	p, fds := f.send(uapi.Request{Op: uapi.OpMmap, File: f.id, Arg: [4]uint64{mi.Offset, uint64(mi.Size)}}, nil)
	if p.Result < 0 || len(fds) != 1 {
		f.t.Fatalf("mmap: %+v", p)
	}
	b, err := unix.Mmap(fds[0], 0, int(mi.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	unix.Close(fds[0])
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { unix.Munmap(b) })
	return b
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(timeLimit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}
