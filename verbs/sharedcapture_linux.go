package verbs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"softrdma/internal/capture"
)

// joinCapture adds the device's packets to the file of the address's capture.
func (d *Device) joinCapture(file captureFile) error {
	f, err := os.OpenFile(file.Path, os.O_WRONLY|os.O_APPEND|unix.O_NONBLOCK, 0) // no wait for a reader of a FIFO
	if err != nil {
		return err
	}
	c := &Capture{dev: d, own: f}
	id, err := fileID(f)
	if err == nil && id != file.ID {
		err = fmt.Errorf("%s is not the file that the daemon writes: %w", file.Path, os.ErrNotExist)
	}
	if err == nil {
		c.w, err = capture.Continue(f)
	}
	if err == nil {
		err = c.attach()
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// shareCapture prepares the file of a capture for others that write to it. It returns an empty file
// if they cannot, because it is not a regular file.
func shareCapture(f *os.File) (file captureFile, err error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return file, err
	}
	if file.ID, err = fileID(f); err != nil {
		return file, err
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags|unix.O_APPEND)
	}
	if err == nil {
		file.Path, err = filepath.Abs(f.Name())
	}
	return file, err
}

func fileID(f *os.File) (id [2]uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return id, err
	}
	return [2]uint64{st.Dev, st.Ino}, nil
}
