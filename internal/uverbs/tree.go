//go:build linux

package uverbs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/uverbs/device"
)

// cmRdev is the number of the device file of connection management, a misc device.
var cmRdev = unix.Mkdev(10, 59)

// cmABI is the version of the interface of connection management.
const cmABI = 4

// A tree is the files that libraries and programs read below /sys, and the numbers of the
// device files.
type tree struct {
	dir     string
	written map[string]string // contents of the files
}

// update makes the files have these contents. A file is replaced as a whole, so that
// readers find its old contents or the new ones.
func (t *tree) update(files map[string]string) error {
	write := t.replace
	if len(t.written) == 0 { // nobody reads them yet
		write = t.create
	}
	for name, text := range files {
		if old, ok := t.written[name]; ok && old == text {
			continue
		}
		if err := write(filepath.Join(t.dir, name), text+"\n"); err != nil {
			return err
		}
		t.written[name] = text
	}
	for name := range t.written {
		if _, ok := files[name]; ok {
			continue
		}
		if err := os.Remove(filepath.Join(t.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		delete(t.written, name)
	}
	return nil
}

// create writes a file, and makes its directory.
func (t *tree) create(path, text string) error {
	err := os.WriteFile(path, []byte(text), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
	}
	return err
}

// replace writes the new file outside the directory, which programs list.
func (t *tree) replace(path, text string) error {
	next := filepath.Join(t.dir, "next")
	if err := t.create(next, text); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// treeFiles returns the present contents of all files of the tree.
func (s *Server) treeFiles() map[string]string {
	files := map[string]string{
		"sys/class/infiniband_verbs/abi_version": "6",
		"sys/class/misc/rdma_cm/abi_version":     strconv.Itoa(cmABI),
		"sys/class/misc/rdma_cm/dev":             device.FormatNumber(cmRdev),
	}
	for name, k := range s.files.Kinds {
		files["dev/infiniband/"+name] = device.FormatNumber(k.Rdev)
	}
	for _, d := range s.devices {
		d.AddSysfs(files)
	}
	s.management.AddSysfs(files)
	return files
}

// portChanged makes followPorts look at the ports.
func (s *Server) portChanged() {
	select {
	case s.portEvents <- struct{}{}:
	default:
	}
}

// followPorts writes the files again whenever a port has changed: that of a fabric, or the
// interface or address of another device.
func (s *Server) followPorts() {
	for _, d := range s.devices {
		if d.Fabric == nil {
			continue
		}
		stop := d.Fabric.Watch(func(_, _ *attach.Info, _ attach.Event) { s.portChanged() })
		defer stop()
	}
	for {
		if err := s.tree.update(s.treeFiles()); err != nil && s.cfg.Log != nil {
			s.cfg.Log("sysfs tree: " + err.Error())
		}
		select {
		case <-s.portEvents:
		case <-s.runtime.Context.Done():
			return
		}
	}
}
