//go:build linux

package ondemand

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/daemon"
)

// parents are the directories in which servers on demand have theirs, the first choice first. start.c
// has the same list.
var parents = []string{"/dev/shm", "/tmp", "/run"}

// ErrTaken means that another process has the directory of a server: it starts, serves or ends.
var ErrTaken = errors.New("another process has the directory of the server")

// prefix begins the names of the directories of this user's servers.
func prefix() string { return fmt.Sprintf("softrdma-env-%d-", os.Geteuid()) }

// name returns the name of the directory of a server: of this user, this network namespace and the
// arguments of the command that starts it. Containers with different networks may share /dev/shm.
func name(args []string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strings.Join(args, " ")))
	return fmt.Sprintf("%s%s-%016x", prefix(), network(), h.Sum64())
}

// network returns the number of this network namespace.
func network() string {
	link, _ := os.Readlink("/proc/self/ns/net") // "net:[4026531840]"
	return strings.Trim(link, "net:[]")
}

// A Server is a server that runs.
type Server struct {
	Socket string
	*daemon.Info
}

// Find returns the server of a command's arguments, nil if none runs.
func Find(ctx context.Context, args []string) (*Server, error) {
	for _, socket := range sockets(name(args)) {
		s := &Server{Socket: socket}
		var err error
		if s.Info, err = daemon.Look(ctx, socket); err == nil && int(s.UID) == os.Geteuid() {
			return s, nil
		}
		if errors.As(err, new(*daemon.RefusedError)) {
			return nil, fmt.Errorf("server on %s: %w", socket, err)
		}
	}
	return nil, nil
}

// All returns all servers of this user and network namespace.
func All(ctx context.Context) (list []*Server) {
	for _, socket := range sockets(prefix() + network() + "-*") {
		if info, err := daemon.Look(ctx, socket); err == nil && int(info.UID) == os.Geteuid() {
			list = append(list, &Server{socket, info})
		}
	}
	return list
}

// Others reports whether there may be servers of this user and network namespace in other directories.
func Others(dir string) bool {
	return slices.ContainsFunc(sockets(prefix()+network()+"-*"), func(s string) bool { return filepath.Dir(s) != dir })
}

// Sockets returns where servers may listen whose devices this process may take for the best ones: that of
// its environment, and that of environments without devices.
func Sockets() (list []string) {
	if start := strings.Split(os.Getenv(startVariable), " "); start[0] != "" {
		list = sockets(name(start[1:]))
	}
	return append(list, sockets(name(Words))...)
}

// sockets returns the sockets in directories of a name or pattern that only this user can write to.
func sockets(pattern string) (list []string) {
	for _, parent := range parents {
		dirs, _ := filepath.Glob(filepath.Join(parent, pattern))
		for _, dir := range dirs {
			if st, err := os.Lstat(dir); err == nil && check(dir, st) == nil {
				list = append(list, filepath.Join(dir, "socket"))
			}
		}
	}
	return list
}

// check returns an error unless a directory is one into which only this user can put files.
func check(dir string, st fs.FileInfo) error {
	s, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !st.IsDir() || int(s.Uid) != os.Geteuid():
		return fmt.Errorf("%s: expected a directory of user %d, found %v of user %d: %w", dir, os.Geteuid(), st.Mode().Type(), s.Uid, syscall.EACCES)
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s: expected a directory that others cannot write to, found %v: %w", dir, st.Mode(), syscall.EACCES)
	}
	return nil
}

// Take makes the directory of a server, with the files that a killed one has left, and locks it until
// leave is called. The error wraps ErrTaken if another process has it. Directories of killed servers that
// will not be started again, for example because their network namespace has ended, are removed.
func Take(args []string) (dir string, leave func(), err error) {
	var failed []error
	for _, parent := range parents {
		dir = filepath.Join(parent, name(args))
		leave, err := take(dir)
		if err == nil {
			clean(parent)
			return dir, leave, nil
		}
		if errors.Is(err, ErrTaken) {
			return "", nil, err
		}
		failed = append(failed, err)
	}
	return "", nil, fmt.Errorf("a device needs a directory for its socket and sysfs files: expected to write to one of %s: %w",
		strings.Join(parents, ", "), failed[0])
}

func take(dir string) (leave func(), err error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, syscall.ENOENT) { // its server has just ended
		return nil, ErrTaken
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	d := os.NewFile(uintptr(fd), dir)
	leave = func() {
		_ = os.Remove(dir) // only if it is empty
		_ = d.Close()
	}
	here, err := d.Stat()
	if err == nil {
		err = check(dir, here)
	}
	if err == nil && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		err = ErrTaken
	}
	if err == nil {
		// The server before this one may have removed the directory after it was opened.
		if there, e := os.Lstat(dir); e != nil || !os.SameFile(here, there) {
			err = ErrTaken
		}
	}
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return leave, nil
}

// clean removes the directories of this user's killed servers.
func clean(parent string) {
	found, _ := filepath.Glob(filepath.Join(parent, prefix()+"*"))
	for _, dir := range found {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && int(st.Uid) == os.Geteuid() && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = unix.Close(fd)
	}
}
