package control

import "os"

// checkDirectory reports whether the directory exists. The system keeps other users out of it.
func checkDirectory(dir string) error {
	_, err := os.Lstat(dir)
	return err
}
