package cli

import (
	"errors"
	"io/fs"
	"os"

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
