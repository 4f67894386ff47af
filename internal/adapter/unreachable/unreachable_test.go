package unreachable

import (
	"syscall"
	"testing"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A reporter is a link with reports about packets to one queue pair.
type reporter struct {
	link.Packets
	left int
	last link.Report
}

func (r *reporter) Look(*link.Flow) {}

func (r *reporter) NextReport() *link.Report {
	if r.left == 0 {
		return nil
	}
	r.left--
	b := make([]byte, ib.BTHLen)
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, DestQPN: 0x123}}
	p.PutHeaders(b)
	r.last = link.Report{Err: syscall.ECONNREFUSED, Quoted: b}
	return &r.last
}

func TestTakeLimitsReports(t *testing.T) {
	l := &reporter{}
	r := NewReader(l)
	for _, c := range []struct {
		now         time.Duration
		there, want int
	}{{0, budget - 1, budget - 1}, {period / 2, 10, 1}, {period - 1, 10, 0}, {period, 10, 10}} {
		l.left = c.there
		r.SendFailed()
		if !r.Pending() {
			t.Error("nothing pending after a failed send")
		}
		got := 0
		r.Take(c.now, func(_ *link.Report, h *ib.BTH, d reason.Detail) {
			if got++; h.DestQPN != 0x123 || d.Reason != reason.SendRefused {
				t.Errorf("report about QPN %#x: %v", h.DestQPN, d)
			}
		})
		if got != c.want || l.left != 0 || r.Pending() {
			t.Errorf("at %v: handled %d reports, expected %d; %d left on the link", c.now, got, c.want, l.left)
		}
	}
}

func TestLinksWithoutReports(t *testing.T) {
	r := NewReader(nil)
	r.SendFailed()
	if r.Pending() || r.Look(nil) {
		t.Error("a link without reports has some")
	}
}
