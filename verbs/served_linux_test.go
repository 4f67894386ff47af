package verbs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/internal/daemontest"
	"softrdma/internal/uverbs"
	"softrdma/internal/uverbs/uapi"
	"softrdma/verbs"
)

func init() { openServed = serveAndOpen }

// A served is a daemon in this process with its device.
type served struct {
	dev    *verbs.Device
	server *uverbs.Server
	dir    string
}

// serve serves a device until the test ends.
func serve(t testing.TB, devices ...*verbs.Device) *served {
	t.Helper()
	dir, err := os.MkdirTemp("", "verbs") // short: a socket's path has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	s := &served{dev: devices[0], dir: dir}
	if s.server, err = uverbs.Serve(uverbs.Config{Devices: devices, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.server.Close(); err != nil {
			t.Error(err)
		}
		for _, d := range devices {
			d.Close()
		}
		os.RemoveAll(dir)
	})
	return s
}

func (s *served) name() string { return "daemon:" + filepath.Join(s.dir, "socket") }

// open opens the first device, or a named one: "/rxe1" is the second.
func (s *served) open(t testing.TB, device ...string) *verbs.Device {
	t.Helper()
	d, err := verbs.Open(s.name()+strings.Join(device, ""), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// serving holds the daemons of tests that run with -daemon, by address.
var serving = make(map[string]*served)

// serveAndOpen opens an address as a daemon's device.
func serveAndOpen(t testing.TB, addr string, cfg verbs.Config) *verbs.Device {
	t.Helper()
	if cfg.Lanes > 1 {
		needOwn(t, "a device with more lanes serves nobody")
	}
	d, err := openServedOn(t, addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func openServedOn(t testing.TB, addr string, cfg verbs.Config) (*verbs.Device, error) {
	t.Helper()
	s := serving[addr]
	if s == nil {
		spin := cfg.Spin
		cfg.Spin = 0
		s = serve(t, openInProcess(t, addr, cfg))
		cfg.Spin = spin
		names := []string{addr, s.dev.Addr().String()}
		for _, name := range names {
			serving[name] = s
		}
		t.Cleanup(func() {
			for _, name := range names {
				delete(serving, name)
			}
		})
	}
	return verbs.Open(s.name(), verbs.Config{Spin: cfg.Spin})
}

// otherReasons, in place of a device's name, makes the daemon number reasons differently.
const otherReasons = "other-reasons"

// sharing before a device's name makes the daemon share its address with programs.
const sharing = "share/"

// TestDaemonProcess is the daemon of [startDaemon].
func TestDaemonProcess(t *testing.T) {
	daemontest.ServeOpened(t, func(name string) (*verbs.Device, error) {
		if name == otherReasons {
			uapi.Reasons = func() uint64 { return 1 }
			return nil, nil
		}
		*inMemory = true // as softrdma daemon does
		addr, shared := strings.CutPrefix(name, sharing)
		return openInProcess(t, addr, verbs.Config{Shared: shared}), nil
	})
}

// A daemonProcess is a daemon with devices on two addresses.
type daemonProcess struct {
	*daemontest.Process
	devices []string // by which they were opened
}

func startDaemon(t testing.TB, devices ...string) *daemonProcess {
	t.Helper()
	return &daemonProcess{daemontest.Start(t, devices...), devices}
}

func (d *daemonProcess) side(t testing.TB, device string, shared bool) *side {
	t.Helper()
	dev, err := verbs.Open(d.Name(device), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return daemonSide(t, dev, shared)
}

func (s *served) side(t testing.TB) *side { return daemonSide(t, s.open(t), false) }

// daemonSide makes an end on a daemon's device. If shared, the daemon maps its memory as well.
func daemonSide(t testing.TB, dev *verbs.Device, shared bool) *side {
	t.Helper()
	var err error
	s := &side{dev: dev, buf: make([]byte, 1<<20)}
	if shared {
		mem, err := verbs.AllocMemory(len(s.buf), verbs.AllocConfig{Device: dev})
		if err != nil {
			t.Fatal(err)
		}
		s.buf = mem.Bytes()
		t.Cleanup(func() {
			dev.Close()
			if err := mem.Free(); err != nil {
				t.Error(err)
			}
		})
	}
	if s.pd, err = dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if s.cq, err = dev.CreateCQ(verbs.CQConfig{Depth: 1024}); err != nil {
		t.Fatal(err)
	}
	if s.mr, err = s.pd.RegisterMemory(s.buf, allRights); err != nil {
		t.Fatal(err)
	}
	if s.qp, err = s.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (d *daemonProcess) pair(t testing.TB, shared bool) (a, b *side) {
	t.Helper()
	a, b = d.side(t, d.devices[0], shared), d.side(t, d.devices[1], shared)
	a.peer, b.peer = b, a
	ends{}.join(t, a, b)
	return a, b
}
