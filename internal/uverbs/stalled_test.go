//go:build linux

package uverbs

import (
	"fmt"
	"maps"
	"net"
	"testing"

	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/testenv"
)

// A program whose memory does not answer loses its own connection. Those of others continue while
// its memory is held, and the device can be used after it.
func TestAttackMemoryThatDoesNotAnswerStopsNobodyElse(t *testing.T) {
	testenv.HoldMemory(t, 1<<16).Release() // which skips if memory cannot be held
	for name, op := range map[string]queue.Op{"load": queue.Read, "store": queue.Write} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, map[string]string{"load": "127.14.9.1", "store": "127.14.9.2"}[name])
			attacker := startHelper(t, s, nil)
			var key uint32
			var at uint64
			if n, _ := fmt.Sscan(attacker.tell("hold"), &key, &at); n != 2 {
				t.Fatal("no memory is held")
			}
			a, b := newPair(t, s)
			c := newSide(newTestClient(t, s).open("uverbs0"), 0x3000)
			dgid := s.cfg.Devices[0].GID()
			c.connect(attacker.side.qpn, dgid)
			attacker.tell("connect %d %v", c.qpn, net.IP(dgid[:]))

			c.post(op, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: at, RKey: key} }, c.sge(0, 4096))
			attacker.tell("used")
			exercise(t, a, b)
			if e := c.failure(); e.Status == queue.Success {
				t.Error("a request to memory that does not answer has succeeded")
			}
			if n := maps.Collect(s.cfg.Devices[0].Counters())[reason.ClientStalled.String()]; n == 0 {
				t.Error("no refusal is counted")
			}
			exercise(t, a, b)
			attacker.tell("release")
			exercise(t, a, b)
			attacker.kill()
			exercise(t, a, b)
		})
	}
}
