package pathmtu

import "time"

const (
	// maxProbes is how many probes of a size may be lost before the size counts as too long. RFC 8899 5.1.2
	// suggests 3 (MAX_PROBES), which on a path that loses a tenth would be wrong once in 150 times.
	maxProbes = 5

	// firstRaise is the time after which a path that was found narrow is probed again, and lastRaise the longest one,
	// to which it doubles (RFC 8899 5.1.1, PMTU_RAISE_TIMER). The first is shorter than that of the RFC,
	// because fragments cost more than short packets do.
	firstRaise = 10 * time.Second
	lastRaise  = 10 * time.Minute

	// leastMTU is the smallest path MTU of RoCE.
	leastMTU = 256

	never = time.Duration(1<<63 - 1)
)

// A State is what is known about a path.
type State uint8

// The states.
const (
	Whole     State = iota // packets of the path MTU pass, as far as is known
	Searching              // a probe is under way
	Narrow                 // they do not, and others do
	Silent                 // no probe was answered
)

// A Search decides about one connection's path. The zero value is one whose packets pass.
type Search struct {
	state State
	mtu   int // the connection's path MTU
	size  int // path MTU that is being probed
	known int // largest path MTU that passed in the last search, 0 if there is none
	tries int // probes of size that were sent
	due   bool
	wait  time.Duration // for an answer
	at    time.Duration
	raise time.Duration
}

// State returns what is known.
func (s *Search) State() State { return s.state }

// Fragments reports whether packets should be sent in a way that lets the network fragment them.
func (s *Search) Fragments() bool { return s.state != Whole }

// Known returns the largest path MTU that passed, 0 if there is none.
func (s *Search) Known() int { return s.known }

// Suspect notes that packets of the path MTU seem to be lost. Packets may be fragmented from then on, and the path is
// probed. An answer comes within wait, if it comes. Suspect does nothing if that is under way or done already.
func (s *Search) Suspect(now time.Duration, mtu int, wait time.Duration) {
	if s.state != Whole {
		return
	}
	s.mtu, s.wait = mtu, wait
	if s.raise == 0 {
		s.raise = firstRaise
	}
	s.begin(now)
}

// begin begins a search from the path MTU downwards: most often a packet was lost by accident, and the path is whole.
// What passed in an earlier search need not pass any more.
func (s *Search) begin(now time.Duration) {
	s.state, s.size, s.tries, s.known = Searching, s.mtu, 0, 0
	s.due, s.at = true, now
}

// Due reports whether a probe is to be sent.
func (s *Search) Due() bool { return s.due }

// Probe returns the path MTU to probe: the caller sends a probe that is as long as a packet of it.
func (s *Search) Probe(now time.Duration) (mtu int) {
	s.due, s.at = false, now+s.wait
	s.tries++
	return s.size
}

// Answer notes that a probe of a path MTU arrived. It ignores path MTUs that this search has not probed: a peer may
// name any.
func (s *Search) Answer(now time.Duration, mtu int) {
	if s.state == Whole || mtu < s.size || mtu > s.mtu || s.mtu%mtu != 0 {
		return
	}
	s.known = max(s.known, mtu)
	switch {
	case mtu == s.mtu: // also a late answer
		*s = Search{known: mtu, raise: s.raise}
	case s.state == Searching && mtu == s.size:
		s.rest(now, Narrow)
	}
}

// rest ends a search, until it is time for another.
func (s *Search) rest(now time.Duration, state State) {
	s.state, s.due, s.at = state, false, now+s.raise
	s.raise = min(2*s.raise, lastRaise)
}

// Deadline returns when to call Expire. A probe may be due then.
func (s *Search) Deadline() time.Duration {
	if s.state == Whole {
		return never
	}
	return s.at
}

// Expire acts on a deadline that has passed.
func (s *Search) Expire(now time.Duration) {
	switch {
	case s.Deadline() > now:
	case s.due:
		s.at = never // the caller knows now
	case s.state != Searching:
		s.begin(now)
	case s.tries < maxProbes:
		s.due, s.at = true, now
	case s.size/2 > max(s.known, leastMTU-1):
		s.size, s.tries, s.due, s.at = s.size/2, 0, true, now
	case s.known > 0:
		s.rest(now, Narrow)
	default:
		s.rest(now, Silent)
	}
}
