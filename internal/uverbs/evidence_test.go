//go:build linux

package uverbs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/uverbs/client"
)

// A program may pass the descriptor of anything: to open a pipe again would wait for a writer.
func TestOnlyDirectoriesAreKeptForTheFlightRecorder(t *testing.T) {
	s := newServer(t, "127.14.4.65")
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	x := &slot{device: s.devices[0], process: &client.Process{PID: os.Getpid(), Account: s.admission.Account(uint32(os.Getuid()))}}
	before := x.process.Account.Descriptors.Held()
	for at, kept := range map[string]bool{path: false, t.TempDir(): true} {
		fd, err := unix.Open(at, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if x.keep(fd, 1); x.evidence.dir != nil != kept {
			t.Errorf("%s is kept: %v, expected %v", at, x.evidence.dir != nil, kept)
		}
		x.write(nil)
		x.evidence = evidence{}
	}
	if n := x.process.Account.Descriptors.Held(); n != before {
		t.Errorf("%d descriptors are counted, expected %d", n, before)
	}
}
