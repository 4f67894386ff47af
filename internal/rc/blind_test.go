package rc

import (
	"fmt"
	"math"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/queue"
	"softrdma/internal/wire/ib"
)

// This file measures how many guesses a blind attacker needs. The attacker knows both addresses and
// the queue pair numbers and can send from the peer's address, but sees no packet. docs/security.md
// quotes the figures.

// psnBits and portBits are the bits to guess: those of a PSN, and those of the range of source
// ports that softrdma and Linux use.
const (
	psnBits  = psn.Bits
	portBits = 14
)

// guesses formats the probability of a hit if taken of all PSNs have an effect.
func guesses(taken int, port bool) string {
	if taken == 0 {
		return "none"
	}
	all := float64(psnBits)
	if port {
		all += portBits
	}
	return fmt.Sprintf("one in 2^%.1f", all-math.Log2(float64(taken)))
}

// offsets returns the PSNs to try, relative to the expected one: all near it, and a sample of the
// others.
func offsets() (list []int) {
	for d := -3; d < 70; d++ {
		list = append(list, d)
	}
	for d := 70; d < 5000; d += 701 {
		list = append(list, d, -d)
	}
	return append(list, 1<<20, -1<<20, 1<<22, -1<<22, 1<<23-1)
}

// trial is a connection with flight WRITEs in flight when a forged packet arrives from port. It
// continues until every PSN that could have been held has passed.
type trial struct {
	selective, silent bool
	flight            int
	port              uint16
}

func (c trial) begin(t *testing.T) *pair {
	big := func(_ int, p *machine.Port) { p.SQ = queue.NewSendRing(1023, 4, 64) }
	w := newPair(t, big)
	if c.selective {
		w = newSelective(t, big)
	}
	w.keep = false
	for i := range uint64(8) {
		w.n[1].postRecv(i, w.n[1].sge(0, 8))
	}
	w.postWrites(1)
	w.settle()
	if c.silent {
		w.now += machine.OriginQuiet
	}
	w.n[0].send.list = nil
	w.postWrites(c.flight)
	w.take(0, c.flight)
	return w
}

// requestTaken reports whether a forged SEND is executed.
func (c trial) requestTaken(t *testing.T, d int) bool {
	w := c.begin(t)
	p := sendPacket(1+d, []byte("forged..")...)
	p.Selective = c.selective
	w.forge(1, c.port, p)
	for sent := 0; sent < 5000 && len(w.n[1].recv.list) == 0; sent += 500 {
		w.settle()
		w.postWrites(500)
	}
	w.settle()
	return len(w.n[1].recv.list) > 0
}

// answerTaken reports whether a forged acknowledge completes a request that was not executed.
func (c trial) answerTaken(t *testing.T, d int) bool {
	w := c.begin(t)
	w.wire[1] = nil // loses all packets in flight
	p := ackPacket(ib.ACKNoCredits, 0)
	p.PSN = psn.PSN(testPSN0).Add(1 + d)
	w.forge(0, c.port, p)
	return len(w.n[0].send.list) > 0
}

func TestBlindInjectionGuessCount(t *testing.T) {
	for _, c := range []struct {
		name    string
		trial   trial
		request int // PSNs, of 2^24, with which a forged request is executed
		answer  int // PSNs with which a forged acknowledge is accepted
	}{
		// The PSNs in flight, and the next one after all of them have arrived.
		{"softrdma, right port, 1 in flight", trial{true, false, 1, truePort}, 2, 1},
		{"softrdma, right port, 60 in flight", trial{true, false, 60, truePort}, 61, 60},
		{"softrdma, other port, 60 in flight", trial{true, false, 60, otherPort}, 0, 0},
		{"softrdma, other port, silent for 100 ms", trial{true, true, 1, otherPort}, 0, 0},
		{"standard, right port, 1 in flight", trial{false, false, 1, truePort}, 1, 1},
		{"standard, right port, 60 in flight", trial{false, false, 60, truePort}, 1, 60},
		{"standard, other port, 60 in flight", trial{false, false, 60, otherPort}, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			requests, answers := 0, 0
			for _, d := range offsets() {
				if c.trial.requestTaken(t, d) {
					requests++
				}
				if c.trial.answerTaken(t, d) {
					answers++
				}
			}
			if requests != c.request || answers != c.answer {
				t.Errorf("%d requests and %d answers were taken, expected %d and %d", requests, answers, c.request, c.answer)
			}
			port := c.trial.port == truePort
			t.Logf("guesses taken: %s as a request, %s as an answer", guesses(requests, port), guesses(answers, port))
		})
	}
}
