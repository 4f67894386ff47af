package verbs_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"softrdma/verbs"
)

// A capture of an address that programs share has the packets of their devices, too, on either path.
func TestCaptureOfASharedAddressHasThePacketsOfPrograms(t *testing.T) {
	for _, mode := range []verbs.SameHost{verbs.SameHostOff, verbs.SameHostAuto} {
		t.Run(string(mode), func(t *testing.T) {
			daemon, name := shareAddress(t, "127.7.42.1")
			f, err := os.Create(filepath.Join(t.TempDir(), "shared.pcapng"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			c, err := daemon.dev.Capture(f)
			if err != nil {
				t.Fatal(err)
			}
			program, err := verbs.Open(name, verbs.Config{SameHost: mode})
			if err != nil {
				t.Fatal(err)
			}
			defer program.Close()
			if !program.Capturing() {
				t.Error("the program's device is not captured")
			}
			p := startHostPeer(t, peerConfig{Addr: "127.7.42.3", Size: sharedSize, QPs: 1, Type: verbs.RC, Report: true, Mode: mode})
			s := on(t, program, make([]byte, sharedSize))
			p.join(t, verbs.ConnectConfig{Timeout: 19}, s)
			exchange(t, p, s)
			p.end(t)
			if err := errors.Join(program.Close(), c.Close()); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(f.Name())
			if err != nil {
				t.Fatal(err)
			}
			if n := len(packetsOf(t, bytes.NewReader(b), s.qp.Number())); n < 10 {
				t.Errorf("%d packets to the program's queue pair", n)
			}
		})
	}
}

// A program cannot write to a capture that is no file, and its packets must not be missing.
func TestProgramsDeviceIsRefusedWhereTheCaptureIsNoFile(t *testing.T) {
	daemon, name := shareAddress(t, "127.7.42.1")
	c, err := daemon.dev.Capture(new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	if dev, err := verbs.Open(name, verbs.Config{}); err == nil || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("device %v, %v", dev, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	openShared(t, name)
}
