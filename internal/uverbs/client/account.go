//go:build linux

package client

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// An Account counts the descriptors and mappings that the programs of one user
// hold in the server. One user gets at most half of the server's, and all users
// together three quarters: the rest is for the server's own work, such as
// accepting connections, the sockets of devices and answers to programs that are
// refused.
type Account struct {
	Descriptors Quota // connections, processes, pipes, and rings that were not mapped
	Mappings    Quota // rings and mirrors of regions

	waits waitBudget // for the memory of these programs
}

// A Quota is a number with an upper limit.
type Quota struct {
	N      atomic.Int64
	Max    int64
	errno  syscall.Errno // beyond the limit
	reason reason.Reason
	parent *Quota // also counts n; nil for none
}

// Take adds n, or refuses and changes nothing.
func (q *Quota) Take(n int64) error {
	now := q.N.Add(n)
	if now > q.Max {
		q.N.Add(-n)
		return Refuse(q.errno, q.reason, uint64(q.Max), uint64(now))
	}
	if q.parent == nil {
		return nil
	}
	err := q.parent.Take(n)
	if err != nil {
		q.N.Add(-n)
	}
	return err
}

// Return returns n that take has added.
func (q *Quota) Return(n int64) {
	q.N.Add(-n)
	if q.parent != nil {
		q.parent.Return(n)
	}
}

// Held returns what take has added and give has not returned.
func (q *Quota) Held() int64 { return q.N.Load() }

// A Budget is what the programs of all users may hold together.
type Budget struct{ descriptors, mappings Quota }

// NewBudget reserves three quarters of what this process may still open.
func NewBudget() *Budget {
	descriptors, mappings := descriptorLimit(), mappingLimit()
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		descriptors -= int64(len(list))
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		mappings -= int64(bytes.Count(maps, []byte{'\n'}))
	}
	return &Budget{
		descriptors: Quota{Max: descriptors / 4 * 3, errno: syscall.EMFILE, reason: reason.ServerReserve},
		mappings:    Quota{Max: mappings / 4 * 3, errno: syscall.ENOMEM, reason: reason.ServerReserve},
	}
}

// NewAccount opens the account of one user.
func (b *Budget) NewAccount() *Account {
	half := func(all *Quota) Quota {
		return Quota{Max: all.Max / 3 * 2, errno: all.errno, reason: reason.ClientLimit, parent: all}
	}
	return &Account{Descriptors: half(&b.descriptors), Mappings: half(&b.mappings)}
}

// descriptorLimit is how many descriptors this process may have.
func descriptorLimit() int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Cur > 1<<30 {
		return 1 << 30
	}
	return int64(l.Cur)
}

// mappingLimit is how many mappings this process may have. Beyond that limit even
// Go's heap cannot grow.
func mappingLimit() int64 {
	b, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			return n
		}
	}
	return 65530 // Linux's default
}
