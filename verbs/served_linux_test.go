package verbs_test

import (
	"testing"

	"softrdma/internal/daemontest"
	"softrdma/internal/testenv"
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
	s := &served{dev: devices[0], dir: testenv.SocketDir(t)}
	var err error
	if s.server, err = uverbs.Serve(uverbs.Config{Devices: devices, Dir: s.dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.server.Close(); err != nil {
			t.Error(err)
		}
		for _, d := range devices {
			d.Close()
		}
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
