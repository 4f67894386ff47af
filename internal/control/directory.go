package control

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"softrdma/internal/rundir"
)

// off is the value of SOFTRDMA_CONTROL_DIR that keeps a process from answering.
const off = "off"

// Directory returns where this user's processes have their sockets: $SOFTRDMA_CONTROL_DIR, else
// /run/softrdma/control for root, and $XDG_RUNTIME_DIR/softrdma/control or
// /tmp/softrdma-control-UID for other users. It is "" if SOFTRDMA_CONTROL_DIR is "off".
func Directory() string {
	if dir := rundir.Path("SOFTRDMA_CONTROL_DIR", "control"); dir != off {
		return dir
	}
	return ""
}

// makeDirectory makes the directory if it is missing.
func makeDirectory(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	return rundir.Check(dir)
}

// A Socket is where a process answers, unless it has ended.
type Socket struct {
	PID  int
	Path string
}

// Sockets returns the sockets in the directory.
func Sockets() ([]Socket, error) {
	dir := Directory()
	if dir == "" {
		return nil, nil
	}
	if err := rundir.Check(dir); err != nil {
		if os.IsNotExist(err) {
			return nil, nil
		}
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []Socket
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid > 0 && e.Type() == fs.ModeSocket {
			all = append(all, Socket{pid, filepath.Join(dir, e.Name())})
		}
	}
	return all, nil
}
