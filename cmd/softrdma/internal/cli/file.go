package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2/maybe"
)

// WriteFile writes a file that the user named. A new or regular file is replaced atomically,
// so that no reader sees a part of it (on Windows it is overwritten). Anything else, such as a
// device, a named pipe or a symbolic link, is kept and written to.
func WriteFile(name string, data []byte) error {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() {
		err := maybe.WriteFile(name, data, 0o644)
		// The user may write to the file, but not to its directory.
		if !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return os.WriteFile(name, data, 0o644)
}

// CheckFile returns an error if WriteFile could not write a file, so that a command can say so before
// it does what takes long. It creates nothing that stays.
func CheckFile(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, err := os.CreateTemp(filepath.Dir(name), ".softrdma-*")
		if err != nil {
			return &fs.PathError{Op: "create", Path: name, Err: errors.Unwrap(err)}
		}
		f.Close()
		return os.Remove(f.Name())
	case err != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "write", Path: name, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return nil // opening a pipe would wait
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}
