package packet

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"softrdma/internal/inherit"
	"softrdma/internal/reason"
)

// Slots are the lanes of an endpoint that programs share. Each program has a socket of its own,
// which it opens itself and whose filter takes the frames of the program's lane. So a program
// needs CAP_NET_RAW, and the owner of the endpoint lends it no privilege.
//
// The endpoint stays claimed until the owner and all programs have closed their links.
type Slots struct {
	claim int // a copy of the owner's
	first int // the lanes below belong to the owner

	mu    sync.Mutex
	taken []bool // of the lanes from first on
}

// OpenSlots opens n links like Open, and provides further lanes, of in total, for programs.
// Config.Claim is required.
func OpenSlots(cfg Config, n, of int) ([]*Link, *Slots, error) {
	links, err := Open(cfg, n)
	if err != nil {
		return nil, nil, err
	}
	claim, err := duplicate(links[0].claim)
	if err != nil {
		for _, l := range links {
			_ = l.Close()
		}
		return nil, nil, err
	}
	return links, &Slots{claim: claim, first: n, taken: make([]bool, of-n)}, nil
}

func duplicate(fd int) (int, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return n, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
}

// Take lends a lane to a program. It returns the lane's number and the descriptor for OpenSlot,
// which the caller closes. Give frees the lane.
func (s *Slots) Take() (lane int, fds []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claim < 0 {
		return 0, nil, os.ErrClosed
	}
	for i, taken := range s.taken {
		if taken {
			continue
		}
		fd, err := duplicate(s.claim)
		if err != nil {
			return 0, nil, err
		}
		s.taken[i] = true
		return s.first + i, []int{fd}, nil
	}
	n := uint64(len(s.taken))
	return 0, nil, reason.Detail{Reason: reason.SlotsTaken, Expected: n, Found: n}.Err()
}

// Give takes back a lane whose program has ended or no longer uses it.
func (s *Slots) Give(lane int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[lane-s.first] = false
}

// Key returns no key: each frame comes to the socket of its lane, so programs hand none over.
func (s *Slots) Key() (none [16]byte) { return none }

// Close ends lending. Lanes that are lent to programs keep working.
func (s *Slots) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claim >= 0 {
		_ = unix.Close(s.claim)
		s.claim = -1
	}
}

// OpenSlot opens a link on a lane that Slots has lent. It takes ownership of the descriptor.
func OpenSlot(claim int, cfg Config) (*Link, error) {
	cfg.Claim = ""
	links, err := Open(cfg, 1)
	if err != nil {
		_ = unix.Close(claim)
		return nil, err
	}
	l := links[0]
	l.claim = claim
	inherit.Add(l.fd, l.claim)
	return l, nil
}
