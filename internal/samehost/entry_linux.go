package samehost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// maxEntries is how many names of one address are considered for each user. A device that
// opens removes stale names of its address, so an honest user has fewer.
const maxEntries = 16

// An entry is a name in the directory together with the attributes of its file. A user who may
// write to the directory can choose a name and link a file to it, but cannot choose the file's
// owner and time.
type entry struct {
	name
	uid     uint32        // owner of the file
	changed unix.Timespec // time of the inode's last change
}

// newer orders entries by the time of the inode. Files made within one tick of the file
// system's clock have equal times. The order then only matters between names of one user, and
// the time in the name decides.
func (e entry) newer(o entry) int {
	return cmp.Or(cmp.Compare(o.changed.Nano(), e.changed.Nano()), cmp.Compare(o.since, e.since))
}

// entry returns the entry of a name, and reports whether the name is that of a socket.
func (d *directory) entry(n name) (e entry, ok bool) {
	var st unix.Stat_t
	err := unix.Fstatat(int(d.file.Fd()), n.String(), &st, unix.AT_SYMLINK_NOFOLLOW)
	return entry{n, st.Uid, st.Ctim}, err == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// entries returns the sockets in the directory that have one device address, and how many
// names of other addresses there are. Each user's entries are sorted newest first, and users
// take turns.
func (d *directory) entries(of name) (found []entry, others int, err error) {
	texts, err := d.list()
	if err != nil {
		return nil, 0, failure(reason.HostDirectory, len(d.path), err)
	}
	prefix := of.prefix()
	for _, s := range texts {
		if !strings.HasPrefix(s, prefix) {
			others++
			continue
		}
		if n, ok := parseName(s); ok && n.same(of) {
			if e, ok := d.entry(n); ok {
				found = append(found, e)
			}
		}
	}
	return inTurn(found), others, nil
}

// inTurn sorts entries so that users take turns, each with the newest first, and drops what
// exceeds maxEntries for a user.
func inTurn(list []entry) (turns []entry) {
	slices.SortFunc(list, entry.newer)
	count := make(map[uint32]int)
	ranks := make([][]entry, maxEntries)
	for _, e := range list {
		if k := count[e.uid]; k < maxEntries {
			ranks[k] = append(ranks[k], e)
			count[e.uid]++
		}
	}
	return slices.Concat(ranks...)
}

// A pinned file stays the same while it is open, even if its name is replaced.
type pinned struct{ fd int }

// open pins the socket of a name. It follows no link: a link could lead to a file system whose
// owner never answers.
func (d *directory) open(name string) (pinned, error) {
	fd, err := unix.Openat(int(d.file.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return pinned{-1}, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		err = unix.ENOTSOCK
	}
	if err != nil {
		_ = unix.Close(fd)
		return pinned{-1}, err
	}
	return pinned{fd}, nil
}

// path returns a path that the socket can be connected by.
func (p pinned) path() string { return fmt.Sprintf("/proc/self/fd/%d", p.fd) }

func (p pinned) close() { _ = unix.Close(p.fd) }
