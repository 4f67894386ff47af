//go:build linux

package uverbs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/uverbs/device"
)

// cmName is the name of the device file of connection management.
const cmName = "rdma_cm"

// cmRdev is the number of the device file of connection management, a misc device.
var cmRdev = unix.Mkdev(10, 59)

// cmABI is the version of the interface of connection management.
const cmABI = 4

// A tree is the files that libraries and programs read below /sys, and the numbers of the
// device files.
type tree struct {
	dir string

	mu      sync.Mutex
	written map[string]string // contents of the files
	at      time.Time         // of the last update
}

// update makes the files have these contents. A file is replaced as a whole, so that
// readers find its old contents or the new ones.
func (t *tree) update(files map[string]string) error {
	write := t.replace
	if len(t.written) == 0 { // they have no readers yet
		write = t.create
	}
	for name, text := range files {
		if old, ok := t.written[name]; ok && old == text {
			continue
		}
		if err := write(name, text+"\n"); err != nil {
			return err
		}
		t.written[name] = text
	}
	for name := range t.written {
		if _, ok := files[name]; ok {
			continue
		}
		path, _ := place(name)
		if err := os.Remove(filepath.Join(t.dir, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		delete(t.written, name)
	}
	return nil
}

// place returns where the file of a name is, and the link by which the name leads to it, if there is
// one. As in Linux, a class has links to the directories of its devices, and those of devices
// without hardware are in devices/virtual.
func place(name string) (path, link string) {
	parts := strings.SplitN(name, "/", 5)
	if len(parts) < 5 || parts[1] != "class" || !strings.HasPrefix(parts[2], "infiniband") {
		return name, ""
	}
	return filepath.Join("sys/devices/virtual", parts[2], parts[3], parts[4]), strings.Join(parts[:4], "/")
}

// create writes a new file.
func (t *tree) create(name, text string) error {
	path, link := place(name)
	path = filepath.Join(t.dir, path)
	if err := t.makeDirectory(filepath.Dir(path), link); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// replace writes the new file outside the directory, which programs list.
func (t *tree) replace(name, text string) error {
	path, link := place(name)
	path = filepath.Join(t.dir, path)
	if err := t.makeDirectory(filepath.Dir(path), link); err != nil {
		return err
	}
	next := filepath.Join(t.dir, "next")
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// makeDirectory makes a directory and the link that leads to its device's, unless they exist.
func (t *tree) makeDirectory(dir, link string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil || link == "" {
		return err
	}
	class, device := filepath.Split(link)
	if err := os.MkdirAll(filepath.Join(t.dir, class), 0o755); err != nil {
		return err
	}
	to := filepath.Join("../../devices/virtual", filepath.Base(class), device)
	if err := os.Symlink(to, filepath.Join(t.dir, link)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
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
		s.addCounters(d, files)
	}
	s.management.AddSysfs(files)
	return files
}

// refresh brings the tree up to date, unless it is younger than age.
func (s *Server) refresh(age time.Duration) error {
	s.tree.mu.Lock()
	defer s.tree.mu.Unlock()
	if age > 0 && time.Since(s.tree.at) < age {
		return nil
	}
	s.tree.at = time.Now()
	return s.tree.update(s.treeFiles())
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
		if err := s.refresh(0); err != nil && s.cfg.Log != nil {
			s.cfg.Log("sysfs tree: " + err.Error())
		}
		select {
		case <-s.portEvents:
		case <-s.runtime.Context.Done():
			return
		}
	}
}
