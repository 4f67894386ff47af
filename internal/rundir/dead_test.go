package rundir

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"softrdma/internal/testenv"
)

func TestOnlySocketsOfEndedProcessesAreRemoved(t *testing.T) {
	dir := testenv.SocketDir(t)
	path := filepath.Join(dir, "socket")
	if err := RemoveDead(path); err != nil {
		t.Errorf("no socket: %v", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Skip("SKIPPED: no Unix sockets: ", err)
	}
	l.SetUnlinkOnClose(false)
	if err := RemoveDead(path); !errors.Is(err, ErrServed) {
		t.Errorf("a socket of a process that runs: expected %v, found %v", ErrServed, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := RemoveDead(path); err != nil {
		t.Errorf("a socket of an ended process: %v", err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket of an ended process: expected none, found %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RemoveDead(file); err == nil {
		t.Error("expected an error for a file that is no socket")
	}
}

// A socket by packets is of a process as one of a stream is.
func TestSocketOfPacketsThatIsServedStays(t *testing.T) {
	dir := testenv.SocketDir(t)
	path := filepath.Join(dir, "socket")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Skip("SKIPPED: no Unix sockets by packets: ", err)
	}
	l.SetUnlinkOnClose(false)
	if err := RemoveDead(path); !errors.Is(err, ErrServed) {
		t.Errorf("expected %v, found %v", ErrServed, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := RemoveDead(path); err != nil {
		t.Errorf("a socket of an ended process: %v", err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket of an ended process: expected none, found %v", err)
	}
}
