package ninep

import (
	"math"
	"os"
	"sync"
	"syscall"

	"github.com/hugelgupf/p9/p9"
)

// maxLocks is how many locks an attachment of a client may have, and maxAllLocks is how many all may have. A client
// can attach many times.
const (
	maxLocks    = 4096
	maxAllLocks = 64 << 10
)

// A session is an attachment of a client: the files that were walked to from there have the same one.
type session struct {
	locks int // held
}

// An owner of locks is a process of a client. Linux's client calls itself by its host's name, which others may
// have, too.
type owner struct {
	session *session
	client  string
	process int
}

// A lock is a range of bytes that a process has locked. A file that several have locked is not locked for
// writing.
type lock struct {
	owner       owner
	by          *file // that ends the lock with itself
	write       bool
	first, last uint64
}

// locks are the locks of files that clients have (fcntl(2), and flock(2) as locks of whole files). Programs of
// the server's system do not see them.
type locks struct {
	mu    sync.Mutex
	files map[any][]lock
	count int // of all
}

// set sets a lock, or removes those of its owner in its range. It reports false if another owner has a lock
// that is in conflict.
func (l *locks) set(key any, x lock, unlock bool) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.files[key]
	if !unlock {
		for _, other := range held {
			if other.owner != x.owner && other.first <= x.last && x.first <= other.last && (x.write || other.write) {
				return false, nil
			}
		}
	}
	var rest []lock
	more := 0
	for _, old := range held {
		if old.owner != x.owner || old.last < x.first || x.last < old.first {
			rest = append(rest, old)
			continue
		}
		more--
		if old.first < x.first {
			before := old
			before.last = x.first - 1
			rest, more = append(rest, before), more+1
		}
		if old.last > x.last {
			after := old
			after.first = x.last + 1
			rest, more = append(rest, after), more+1
		}
	}
	if !unlock {
		rest, more = append(rest, x), more+1
	}
	if more > 0 && (x.owner.session.locks+more > maxLocks || l.count+more > maxAllLocks) {
		return false, syscall.ENOLCK
	}
	x.owner.session.locks += more
	l.count += more
	l.put(key, rest)
	return true, nil
}

func (l *locks) put(key any, held []lock) {
	if len(held) == 0 {
		delete(l.files, key)
		return
	}
	if l.files == nil {
		l.files = make(map[any][]lock)
	}
	l.files[key] = held
}

// end removes the locks that were set by a file which is closed, as that of a client that has gone.
func (l *locks) end(key any, f *file) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rest []lock
	for _, x := range l.files[key] {
		if x.by != f {
			rest = append(rest, x)
			continue
		}
		x.owner.session.locks--
		l.count--
	}
	l.put(key, rest)
}

// Lock implements p9.File. It does not wait: the client asks again.
func (f *file) Lock(process int, kind p9.LockType, _ p9.LockFlags, start, length uint64, client string) (p9.LockStatus, error) {
	key, err := f.lockKey()
	if err != nil {
		return p9.LockStatusError, err
	}
	x := lock{owner: owner{f.session, client, process}, by: f, write: kind == p9.WriteLock, first: start, last: math.MaxUint64}
	if kind > p9.Unlock || length > math.MaxUint64-start {
		return p9.LockStatusError, syscall.EINVAL
	}
	if length > 0 { // 0 is the end of the file, wherever that will be
		x.last = start + length - 1
	}
	ok, err := f.s.locks.set(key, x, kind == p9.Unlock)
	switch {
	case err != nil:
		return p9.LockStatusError, err
	case !ok:
		return p9.LockStatusBlocked, nil
	}
	return p9.LockStatusOK, nil
}

// lockKey returns what names the file that is open, whatever its name is.
func (f *file) lockKey() (any, error) {
	if f.file == nil {
		return nil, syscall.EBADF
	}
	info, err := f.file.Stat()
	if err != nil {
		return nil, err
	}
	return identity(info, f.path), nil
}

// unlock ends the locks that were set by this file. The file is closed afterwards.
func (f *file) unlock(o *os.File) {
	if info, err := o.Stat(); err == nil {
		f.s.locks.end(identity(info, f.path), f)
	}
}
