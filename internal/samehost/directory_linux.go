package samehost

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
	"softrdma/internal/rundir"
)

// A directory is where the devices of this host publish their sockets. Paths in it begin
// with /proc/self/fd, because a socket's path is short (sun_path has 108 bytes).
type directory struct {
	path string
	file *os.File

	mu     sync.Mutex
	listed []string      // when the directory last changed
	change unix.Timespec // modification time of the directory
	known  bool
}

// defaultDirectory returns the directory that all devices of this user use. directory.check refuses
// a public one that another user has made.
func defaultDirectory() string { return rundir.Path("SOFTRDMA_HOST_DIR", "host") }

// publicDirectory returns the directory of processes without a session.
func publicDirectory() string { return rundir.Public("host") }

// openDirectory opens the directory, and creates it for this user if it is missing. It refuses
// a directory in which other users could replace sockets.
func openDirectory(path string, u *users) (*directory, error) {
	if path == "" {
		path = defaultDirectory()
	}
	// The parents are not secret. The umask can only remove rights.
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.Mkdir(path, 0o700)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%w: %w", failure(reason.HostDirectory, len(path), err), err)
	}
	flags := os.O_RDONLY | unix.O_DIRECTORY
	if path == publicDirectory() {
		flags |= unix.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", failure(reason.HostDirectory, len(path), err), err)
	}
	d := &directory{path: path, file: f}
	if err := d.check(u); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// check refuses a directory in which other users could replace sockets. With the sticky bit
// only the directory's owner can replace them. The owner shared the directory and is trusted.
func (d *directory) check(u *users) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(d.file.Fd()), &st); err != nil {
		return failure(reason.HostDirectory, len(d.path), err)
	}
	if st.Mode&unix.S_ISVTX != 0 && d.path != publicDirectory() {
		return nil
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("%s: %w", d.path,
			reason.Detail{Reason: reason.HostDirectoryMode, Expected: uint64(st.Mode & 0o7755), Found: uint64(st.Mode & 0o7777)}.Err())
	}
	if !u.same(st.Uid) && (st.Uid != 0 || !u.known(0)) {
		return fmt.Errorf("%s: %w", d.path, reason.Detail{Reason: reason.HostDirectoryOwner, Expected: uint64(u.own), Found: uint64(st.Uid)}.Err())
	}
	return nil
}

func (d *directory) close() { _ = d.file.Close() }

// at returns the path of a file in the directory.
func (d *directory) at(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.file.Fd(), name)
}

// list returns all names in the directory. It reads the directory only if it has changed,
// because every first contact with a peer on another host looks here too. Callers must not
// change the result.
func (d *directory) list() ([]string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(d.file.Fd()), &st); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known && st.Mtim == d.change {
		return d.listed, nil
	}
	fd, err := unix.Openat(int(d.file.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	texts, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	d.listed, d.change = texts, st.Mtim
	d.known = time.Since(time.Unix(st.Mtim.Unix())) > settleTime // a later change gets another time
	return texts, nil
}

// settleTime is longer than a tick of the file system's clock. A change of the directory later
// than this gets a different time.
const settleTime = 100 * time.Millisecond

// listen makes the socket of a name. It gives the socket its name only when it accepts
// connections and has its permissions, so peers never see it earlier.
func (d *directory) listen(n name, mode os.FileMode) (*net.UnixListener, error) {
	final := n.String()
	hidden := "." + final
	path := d.at(hidden)
	if len(path) > maxName {
		return nil, failure(reason.HostPublish, len(path), unix.ENAMETOOLONG)
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", d.path, failure(reason.HostPublish, len(path), err), err)
	}
	l.SetUnlinkOnClose(false) // its path changes below
	err = os.Chmod(path, mode)
	if err == nil {
		err = os.Rename(path, d.at(final))
	}
	if err != nil {
		_ = l.Close()
		d.remove(hidden)
		return nil, fmt.Errorf("%s: %w: %w", d.path, failure(reason.HostPublish, len(path), err), err)
	}
	return l, nil
}

func (d *directory) remove(name string) { _ = unix.Unlinkat(int(d.file.Fd()), name, 0) }

// removeStale removes a name if no process listens on it. Names are never used twice, so no
// process will listen on it later. It connects a socket of another type, so as not to wake a
// listener: this fails with EPROTOTYPE if there is a listener, else with ECONNREFUSED.
func (d *directory) removeStale(name string) {
	f, err := d.open(name)
	if err != nil {
		return
	}
	defer f.close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if unix.Connect(fd, &unix.SockaddrUnix{Name: f.path()}) == unix.ECONNREFUSED {
		d.remove(name)
	}
}

// looksAtOnce is how many names of other addresses a device checks when it opens.
const looksAtOnce = 8

// replaceStale removes names that killed processes have left: all of this device address, and
// some of other addresses, which may never be opened again. On a file system that other hosts
// share, such a name may belong to a living process.
func (d *directory) replaceStale(of name) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(d.file.Fd()), &fs); err != nil || !slices.Contains(localFileSystems, uint32(fs.Type)) {
		return
	}
	found, _, _ := d.entries(of)
	for _, e := range found {
		d.removeStale(e.String())
	}
	all, err := d.list()
	if err != nil || len(all) == 0 {
		return
	}
	first := rand.IntN(len(all))
	for i := range min(looksAtOnce, len(all)) {
		if s := all[(first+i)%len(all)]; isName(s) {
			d.removeStale(s)
		}
	}
}

var localFileSystems = []uint32{
	unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
	unix.OVERLAYFS_SUPER_MAGIC,
}

// failure returns a reason that contains a system error number.
func failure(r reason.Reason, expected int, err error) error {
	var no syscall.Errno
	errors.As(err, &no)
	return reason.Detail{Reason: r, Expected: uint64(expected), Found: uint64(no)}.Err()
}

// ownSpace returns this process's network namespace.
func ownSpace() (space, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &st); err != nil {
		return space{}, fmt.Errorf("/proc/self/ns/net: %w: %w", reason.Detail{Reason: reason.HostUnsupported, Expected: 1}.Err(), err)
	}
	return space{st.Dev, st.Ino}, nil
}
