package samehost

import (
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
)

// A process is the process of a peer, as the kernel identifies it.
type process struct {
	pid int // 0 if it has none in this PID namespace
	uid uint32
}

// peerOf returns the process at the other end of a connection.
func peerOf(c *net.UnixConn) (p process, err error) {
	cred, err := unixmsg.Peer(c)
	if err == nil {
		p = process{int(cred.Pid), cred.Uid}
	}
	return p, err
}

// allMapped reports whether every user has a number in this user namespace.
func allMapped() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(b))
	return err == nil && len(f) == 3 && f[0] == "0" && f[2] == "4294967295"
}

// isBell checks that a descriptor behaves like an eventfd, to which writes never block. A peer
// of the same user is trusted not to change that.
func isBell(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != 0 || flags&unix.O_NONBLOCK == 0 {
		return reason.Detail{Reason: reason.HostMessage, Expected: unix.O_NONBLOCK, Found: uint64(st.Mode&unix.S_IFMT) | uint64(flags&unix.O_NONBLOCK)}.Err()
	}
	return nil
}
