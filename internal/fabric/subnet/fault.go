package subnet

import (
	"math"
	"math/rand/v2"
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
)

// Faults are what a cable does to the frames of both directions.
type Faults struct {
	BitErrors  float64 `json:"bit_errors"`  // probability that a bit flips
	CreditLoss float64 `json:"credit_loss"` // probability that a link packet, which grants credit, is lost
}

// faultRefresh is how often the ports of a cable with faults repeat their grants of credit.
// Between such ports lost packets and lost grants cost their credits only until then. It is
// longer than IBTA 7.9.4 allows, so that simulating an idle faulty link costs little.
const faultRefresh = time.Millisecond

// SetFaults sets what the cable of a port does to frames from now on. Without a cable it does
// nothing.
func (s *Subnet) SetFaults(now time.Duration, at topology.End, f Faults) {
	s.now = max(s.now, now)
	peer := s.cable(at).peer
	if peer.Port == 0 {
		return
	}
	if s.random == nil {
		s.random = rand.New(rand.NewPCG(uint64(s.config.FaultSeed), 0))
	}
	every := s.config.Port.Refresh
	if f != (Faults{}) && every == port.Never {
		every = faultRefresh
	}
	for _, e := range []topology.End{at, peer} {
		s.cable(e).faults = f
		m := s.members[e.Node]
		m.node.SetRefresh(s.now, e.Port, every)
		s.schedule(m)
	}
}

// Faults returns what the cable of a port does to frames.
func (n *nodes) Faults(at topology.End) Faults { return n.cable(at).faults }

// disturb applies the faults of a cable to a frame, and reports whether any of it arrives.
func (s *Subnet) disturb(f Faults, frame []byte) bool {
	if len(frame) == ib.FlowControlLen && s.random.Float64() < f.CreditLoss {
		return false
	}
	bits := 8 * len(frame)
	// The probability that at least one of the bits flips, without loss of precision where
	// it is small.
	if p := -math.Expm1(float64(bits) * math.Log1p(-f.BitErrors)); s.random.Float64() < p {
		bit := s.random.IntN(bits)
		frame[bit/8] ^= 1 << (bit % 8)
		if s.config.Port.NoVCRC && len(frame) > ib.FlowControlLen {
			frame[len(frame)-1] = 1 // a wrong VCRC
		}
	}
	return true
}
