package verbs_test

import (
	"os"
	"testing"

	"softrdma/internal/daemontest"
	"softrdma/internal/uverbs"
	"softrdma/verbs"
)

// A served is a daemon in this process, with its device.
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

// TestDaemonProcess is a daemon of [daemontest.Start].
func TestDaemonProcess(t *testing.T) {
	daemontest.ServeOpened(t, func(name string) (*verbs.Device, error) {
		*inMemory = true // as softrdma daemon does
		return openDevice(t, name, verbs.Config{Shared: true}), nil
	})
}
