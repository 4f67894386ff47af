//go:build unix

package rundir

import (
	"fmt"
	"os"
	"syscall"
)

// Check refuses a directory in which other users could put sockets. If there is none the error is
// fs.ErrNotExist.
func Check(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.IsDir() || int(owner.Uid) != os.Geteuid() || st.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: expected a directory of user %d that others cannot write to, found mode %v: %w", dir, os.Geteuid(), st.Mode(), syscall.EACCES)
	}
	return nil
}
