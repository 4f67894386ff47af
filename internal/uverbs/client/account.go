//go:build linux

package client

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// An Account counts the descriptors, mappings and bytes of memory that the programs
// of one user hold in the server. One user gets at most half of the server's, and all
// users together three quarters: the rest is for the server's own work, such as
// accepting connections, the sockets of devices and answers to programs that are
// refused.
type Account struct {
	Descriptors Quota // connections, processes, pipes, mirrors, and rings that were not mapped
	Mappings    Quota // rings and mirrors of regions
	Memory      Quota // bytes of rings, mirrors, pipes, objects and what is queued

	waits    waitBudget // for the memory of these programs
	uid      uint32
	refusals *Refusals // nil in a program's own process
}

// Refuse counts and logs what is refused without a call of a program.
func (a *Account) Refuse(what string, err error) {
	if a.refusals != nil {
		why := Why(err)
		a.refusals.Count(why)
		a.refusals.Logf(why.Reason, "user %d, %s: %v", a.uid, what, err)
	}
}

// A Quota is a number with an upper limit.
type Quota struct {
	N      atomic.Int64
	Max    int64
	what   string
	errno  syscall.Errno // beyond the limit
	reason reason.Reason
	parent *Quota // also counts n; nil if there is none
}

// Take adds n, or refuses and changes nothing.
func (q *Quota) Take(n int64) error {
	for {
		now := q.N.Load()
		if n > q.Max-now { // without a moment in which others find too much
			return fmt.Errorf("%s: %w", q.what, Refuse(q.errno, q.reason, uint64(q.Max), uint64(now+n)))
		}
		if q.N.CompareAndSwap(now, now+n) {
			break
		}
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
type Budget struct{ descriptors, mappings, memory Quota }

// NewBudget reserves three quarters of what this process may still open, and a number of
// bytes of memory; 0 for three quarters of what it may have.
func NewBudget(memory int64) *Budget {
	if memory == 0 {
		memory = memoryLimit() / 4 * 3
	}
	descriptors, mappings := descriptorLimit(), mappingLimit()
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		descriptors -= int64(len(list))
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		mappings -= int64(bytes.Count(maps, []byte{'\n'}))
	}
	return &Budget{
		descriptors: Quota{Max: descriptors / 4 * 3, what: "descriptors", errno: syscall.EMFILE, reason: reason.ServerReserve},
		mappings:    Quota{Max: mappings / 4 * 3, what: "mappings", errno: syscall.ENOMEM, reason: reason.ServerReserve},
		memory:      Quota{Max: memory, what: "bytes of memory", errno: syscall.ENOMEM, reason: reason.ServerReserve},
	}
}

// NewAccount opens the account of one user.
func (b *Budget) NewAccount() *Account {
	part := func(all *Quota) Quota {
		return Quota{Max: all.Max / 3 * 2, what: all.what, errno: all.errno, reason: reason.ClientLimit, parent: all}
	}
	return &Account{Descriptors: part(&b.descriptors), Mappings: part(&b.mappings), Memory: part(&b.memory)}
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

// memoryLimit is how many bytes of memory this process may have: the least of the system's
// and of the limits of its control groups.
func memoryLimit() int64 {
	limit := int64(1) << 40
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) == nil {
		limit = int64(i.Totalram * uint64(i.Unit))
	}
	list, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(list)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		dir, file := "/sys/fs/cgroup", "memory.max"
		if slices.Contains(strings.Split(f[1], ","), "memory") { // the first version
			dir, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		limit = min(limit, groupLimit(dir, f[2], file))
	}
	return limit
}

// groupLimit returns the least limit of a control group and those that it is in. The root of
// a container may be below that of the system, so groups that are not there are passed over.
func groupLimit(dir, group, file string) int64 {
	limit := int64(math.MaxInt64)
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		if b, err := os.ReadFile(path.Join(dir, group, file)); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
				limit = min(limit, n)
			}
		}
		if group == "/" {
			return limit
		}
	}
}
