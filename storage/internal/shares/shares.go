// Package shares divides a server's connections among hosts, so that one that opens connections and says
// nothing on them keeps out no other.
package shares

import (
	"net/netip"
	"sync"
)

// hostShare is which part of the connections one host may have.
const hostShare = 4

// Shares count connections. Their methods may be called from any goroutine.
type Shares struct {
	limit int

	mu    sync.Mutex
	all   int
	hosts map[netip.Addr]int
}

// New returns the shares of at most limit connections. One host may have a quarter of them.
func New(limit int) *Shares { return &Shares{limit: limit, hosts: make(map[netip.Addr]int)} }

// PerHost returns how many connections one host may have.
func (s *Shares) PerHost() int { return max(s.limit/hostShare, 1) }

// Enter reports whether a host may have another connection, and counts it.
func (s *Shares) Enter(host netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= s.limit || s.hosts[host] >= s.PerHost() {
		return false
	}
	s.all++
	s.hosts[host]++
	return true
}

// Leave ends a connection that Enter has counted.
func (s *Shares) Leave(host netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.hosts[host]--; s.hosts[host] == 0 {
		delete(s.hosts, host)
	}
}
