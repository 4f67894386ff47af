package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// ErrServed is the error for a socket on which a process listens.
var ErrServed = errors.New("another process listens there")

// dialTime bounds how long the process that listens on a socket may take to accept.
const dialTime = time.Second

// RemoveDead removes the Unix socket that an ended process has left at a path. It is no
// error if there is none. The error is ErrServed if a process listens there. Other files stay, and are an
// error.
func RemoveDead(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("expected a socket, found a file of another type (%v)", st.Mode())
	}
	c, err := net.DialTimeout("unix", path, dialTime)
	switch {
	case err == nil:
		_ = c.Close()
		return ErrServed
	case errors.Is(err, syscall.EPROTOTYPE): // by packets
		return ErrServed
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case !Refused(err): // for example a process that is stopped, with too many clients
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
