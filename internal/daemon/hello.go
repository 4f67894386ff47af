//go:build linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"softrdma/internal/reason"
	"softrdma/internal/rundir"
	"softrdma/internal/wire/uapi"
)

// SystemSocket is the socket of root's daemon, which all users try.
const SystemSocket = "/run/softrdma/socket"

// UserSocket returns the socket of the user's daemon. Processes without a session have no runtime
// directory: theirs is in /tmp, where the sticky bit keeps other users from replacing it.
func UserSocket() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "softrdma", "socket")
	}
	return filepath.Join(publicDirectory(), "socket")
}

// publicDirectory is that of processes without a session.
func publicDirectory() string { return rundir.Public("daemon") }

// CheckSocket returns an error if another user may have made the directory of the user's socket.
func CheckSocket(socket string) error {
	if dir := filepath.Dir(socket); dir == publicDirectory() {
		return rundir.Check(dir)
	}
	return nil
}

// Sockets returns the sockets to try, in order.
func Sockets() []string {
	if user := UserSocket(); CheckSocket(user) == nil {
		return []string{user, SystemSocket}
	}
	return []string{SystemSocket}
}

// An Info describes a daemon to programs that start others.
type Info struct {
	PID     int    // of the daemon
	UID     uint32 // the daemon's user
	Tree    string
	Devices []string // name, address and protocol of each: "rxe0 10.0.0.1 (RoCE v2)"
}

// Ask queries the daemon of a socket for programs that use it while this process lives. The error wraps
// a *RefusedError if the daemon does not serve this process's user, and the context's error if that ends
// first.
func Ask(ctx context.Context, socket string) (*Info, error) { return ask(ctx, socket, 0) }

// Look is Ask for a process that leads no program to the daemon: one on demand (softrdma daemon --idle)
// does not stay for it.
func Look(ctx context.Context, socket string) (*Info, error) {
	return ask(ctx, socket, uapi.HelloLooks)
}

func ask(ctx context.Context, socket string, how uint64) (*Info, error) {
	c, err := dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer c.close()
	r := uapi.Request{Op: uapi.OpHello, Arg: [4]uint64{uint64(uintptr(unsafe.Pointer(c))), how}}
	p, text, fds, err := c.call(&r, nil)
	fds.Close()
	switch {
	case err != nil:
		return nil, err
	case p.Result < 0:
		return nil, &RefusedError{string(text), syscall.Errno(-p.Result)}
	}
	lines := strings.Split(string(text), "\n")
	return &Info{PID: int(c.peer.Pid), UID: c.peer.Uid, Tree: lines[0], Devices: lines[1:]}, nil
}

// A RefusedError says why a daemon does not serve the programs of this user.
type RefusedError struct {
	Text string // with the reason's name, "" from a daemon of another version
	No   syscall.Errno
}

// Error returns the daemon's text.
func (e *RefusedError) Error() string {
	if e.Text == "" {
		return e.No.Error()
	}
	return e.Text
}

// Unwrap returns the errno of the refusal.
func (e *RefusedError) Unwrap() error { return e.No }

// Absent reports whether an error of Ask means that no daemon listens on the
// socket.
func Absent(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)
}

// find queries the daemon of a socket, or of the first socket with a daemon, and
// returns the socket.
func find(ctx context.Context, socket string) (string, *Info, error) {
	places := Sockets()
	if socket != "" {
		places = []string{socket}
	}
	for _, place := range places {
		info, err := Ask(ctx, place)
		switch {
		case err == nil:
			return place, info, nil
		case !Absent(err):
			return "", nil, fmt.Errorf("daemon on %s: %w", place, err)
		}
	}
	return "", nil, &reason.Error{
		Detail: reason.Detail{Reason: reason.DeviceOpen, Found: uint64(syscall.ENOENT)},
		Text:   fmt.Sprintf("no daemon listens on %s: start one (softrdma daemon), or name its socket (shared:PATH)", strings.Join(places, " or ")),
		Cause:  syscall.ENOENT,
	}
}
