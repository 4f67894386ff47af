// Package rundir names the directories in which processes of one user find each other's sockets, and
// refuses those in which other users could put some. It makes none.
package rundir

import (
	"fmt"
	"os"
	"path/filepath"
)

// Path returns the directory for a purpose: the value of the environment variable, else
// /run/softrdma/NAME for root, and $XDG_RUNTIME_DIR/softrdma/NAME or Public for other users.
func Path(variable, name string) string {
	if dir := os.Getenv(variable); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/run/softrdma/" + name
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "softrdma", name)
	}
	return Public(name)
}

// Public returns the directory of processes without a session, which have no runtime directory of
// their user: those in containers above all. Every user can make one in /tmp, also with another
// user's number. The sticky bit of /tmp keeps others from replacing it.
func Public(name string) string { return fmt.Sprintf("/tmp/softrdma-%s-%d", name, os.Geteuid()) }
