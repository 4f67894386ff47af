package rundir

import "os"

// Check reports whether the directory exists. The system keeps other users out of it.
func Check(dir string) error {
	_, err := os.Lstat(dir)
	return err
}
