//go:build linux

package uverbs

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

// An account is what the programs of one user hold of what the server has few
// of. One user's programs get half of it, and those of all users three
// quarters: whatever they do, others are served, and the server has descriptors
// for its own work, as accepting connections, sockets of devices and the answers
// to programs that are refused.
type account struct {
	descriptors quota // connections, processes, pipes, and rings that were not mapped
	mappings    quota // rings and mirrors of regions
}

// A quota is a number that does not pass a limit.
type quota struct {
	n   atomic.Int64
	max int64
	no  syscall.Errno // of who wants more
	why reason.Reason
	all *quota // counts for it as well; nil for none
}

// take adds n.
func (q *quota) take(n int64) error {
	if now := q.n.Add(n); now > q.max {
		q.n.Add(-n)
		return refuse(q.no, q.why, uint64(q.max), uint64(now))
	}
	if q.all == nil {
		return nil
	}
	err := q.all.take(n)
	if err != nil {
		q.n.Add(-n)
	}
	return err
}

// give ends take.
func (q *quota) give(n int64) {
	q.n.Add(-n)
	if q.all != nil {
		q.all.give(n)
	}
}

// A stock is the descriptors and mappings that the server has for the programs of all
// users.
type stock struct{ descriptors, mappings quota }

// newStock divides what this process may still open among the users.
func newStock() *stock {
	descriptors, mappings := descriptorLimit(), mappingLimit()
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		descriptors -= int64(len(list))
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		mappings -= int64(bytes.Count(maps, []byte{'\n'}))
	}
	return &stock{
		descriptors: quota{max: descriptors / 4 * 3, no: syscall.EMFILE, why: reason.ServerReserve},
		mappings:    quota{max: mappings / 4 * 3, no: syscall.ENOMEM, why: reason.ServerReserve},
	}
}

func (s *stock) account() *account {
	half := func(all *quota) quota {
		return quota{max: all.max / 3 * 2, no: all.no, why: reason.ClientLimit, all: all}
	}
	return &account{descriptors: half(&s.descriptors), mappings: half(&s.mappings)}
}

// descriptorLimit is how many descriptors this process may have.
func descriptorLimit() int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Cur > 1<<30 {
		return 1 << 30
	}
	return int64(l.Cur)
}

// mappingLimit is how many parts the memory of this process may have: more, and
// even Go's heap gets none.
func mappingLimit() int64 {
	b, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			return n
		}
	}
	return 65530 // Linux's default
}

// account is that of a user.
func (s *Server) account(uid uint32) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[uid]
	if a == nil {
		a = s.stock.account()
		s.accounts[uid] = a
	}
	return a
}
