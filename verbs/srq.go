package verbs

import (
	"fmt"
	"sync"

	"softrdma/internal/provider"
	"softrdma/internal/reason"
)

// SRQConfig configures a shared receive queue.
type SRQConfig struct {
	MaxRecv int // depth, 1 to MaxQueueDepth; 0 means 128
	MaxSGE  int // entries of a request; 0 means 4
	Limit   int // SetLimit of the new queue, 0 to MaxRecv; 0 disarms the event

	// Both are set for an XRC shared receive queue, see XRCD. Its receives complete to CQ.
	XRCD *XRCD
	CQ   *CQ
}

// An SRQ is a shared receive queue (IBTA 10.2.9).
type SRQ struct {
	pd     *PD
	drv    provider.SRQ
	number uint32     // of XRC
	mu     sync.Mutex // producers
}

// CreateSRQ makes a shared receive queue (ibv_create_srq).
func (p *PD) CreateSRQ(cfg SRQConfig) (*SRQ, error) {
	depth, err := depthOf("SRQ", cfg.MaxRecv, 128, MaxQueueDepth)
	if err != nil {
		return nil, err
	}
	sges, err := depthOf("SRQ entries", cfg.MaxSGE, 4, MaxSGE)
	if err != nil {
		return nil, err
	}
	if cfg.Limit < 0 || cfg.Limit > depth {
		return nil, reason.BadArgument(uint64(depth), uint64(cfg.Limit), "create SRQ: limit: expected 0 to %d, found %d", depth, cfg.Limit)
	}
	s := &SRQ{pd: p}
	if cfg.XRCD != nil || cfg.CQ != nil {
		err = s.createXRC(&cfg, depth, sges)
	} else {
		s.drv, err = p.drv.CreateSRQ(depth, sges, cfg.Limit, s)
	}
	if err != nil {
		return nil, fmt.Errorf("create SRQ: %w", err)
	}
	return s, nil
}

// PostRecv posts receive requests, in order. It copies them and never blocks. The
// error is a *PostError.
func (s *SRQ) PostRecv(wrs ...RecvWR) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.drv.Gone(); err != nil {
		return &PostError{Err: err}
	}
	err := postRecv(s.drv.Ring(), wrs)
	s.drv.PostedReceives()
	return err
}

// SetLimit arms the limit event: EventSRQLimitReached is raised once, when fewer
// than n requests are left (IBTA 10.2.9). 0 disarms it.
func (s *SRQ) SetLimit(n int) error { return s.drv.SetLimit(n) }

// Limit returns the armed limit, or 0 if there is none and after the event.
func (s *SRQ) Limit() int { return s.drv.Limit() }

// Resize changes the depth, 1 to MaxQueueDepth, and keeps the posted requests.
func (s *SRQ) Resize(depth int) error {
	depth, err := depthOf("SRQ", depth, 1, MaxQueueDepth)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drv.Resize(depth)
}

// Depth returns how many requests the queue holds.
func (s *SRQ) Depth() int { return s.drv.Ring().Depth() }

// Destroy destroys the queue. It fails with ErrBusy while queue pairs receive from it. A
// second Destroy does nothing. An XRC shared receive queue may be destroyed at any time: a
// target that is in the middle of a message to it goes to the error state with the next
// packet.
func (s *SRQ) Destroy() error { return s.drv.Destroy() }
