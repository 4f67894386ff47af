//go:build linux && !softrdma_portable

package udp

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/link"
)

// TestReportsTellOfClosedPort: an ICMP error wakes a lane that sleeps, which gets the
// error with the beginning of the packet.
func TestReportsTellOfClosedPort(t *testing.T) {
	for _, host := range loopbacks(t) {
		t.Run(host, func(t *testing.T) {
			a, b := pair(t, host, Config{})
			dst := b.Local()
			f := openFlow(t, a, dst, 7)
			_ = b.Close()
			data := pattern(300)
			send(t, a, &link.Tx{Flow: f, Pieces: [][]byte{data}, Bytes: len(data), Size: len(data)})
			for end := time.Now().Add(10 * time.Second); !a.Reported() && time.Now().Before(end); {
				if err := a.Wait(time.Second); err != nil {
					t.Fatal(err)
				}
			}
			n := 0
			a.Reports(func(r *link.Report) {
				if n++; r.Dst != dst || r.Src != f.Src || r.Err != syscall.ECONNREFUSED || !bytes.Equal(r.Quoted, data[:quoteLen]) {
					t.Errorf("report %+v, want ECONNREFUSED from %v to %v and the first %d bytes", r, f.Src, dst, quoteLen)
				}
			})
			if n != 1 {
				t.Fatalf("%d reports, want 1", n)
			}
			if a.Look(); a.Reported() {
				t.Error("something is left after Reports")
			}
			// What was read is no error of the next send, and does not keep Wait from sleeping.
			send(t, a, &link.Tx{Flow: f, Pieces: [][]byte{data}, Bytes: len(data), Size: len(data)})
			if a.Look(); !a.Reported() {
				t.Error("Look does not find the second report")
			}
			a.Reports(func(*link.Report) {})
			if err := a.Wait(20 * time.Millisecond); err != nil || a.Reported() {
				t.Errorf("Wait: %v, reported %v", err, a.Reported())
			}
		})
	}
}

// TestReportsOfSendErrorsAreKept: a send that fails for an earlier packet takes the
// report off the socket, and it is told all the same.
func TestReportsOfSendErrorsAreKept(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	f := openFlow(t, a, b.Local(), 7)
	_ = b.Close()
	tx := &link.Tx{Flow: f, Pieces: [][]byte{make([]byte, 64)}, Bytes: 64, Size: 64}
	send(t, a, tx)
	if a.Send(tx) == nil || !a.Reported() {
		t.Fatal("the second send did not fail, or nothing is reported")
	}
	n := 0
	a.Reports(func(r *link.Report) { n++ })
	if n == 0 {
		t.Error("nothing is reported")
	}
}

// TestReportsAreBounded: more than fit are dropped.
func TestReportsAreBounded(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	f := openFlow(t, a, b.Local(), 7)
	_ = b.Close()
	for range 3 * maxReports {
		_ = a.Send(&link.Tx{Flow: f, Pieces: [][]byte{make([]byte, 64)}, Bytes: 64, Size: 64})
	}
	n := 0
	a.Reports(func(*link.Report) { n++ })
	if n == 0 || n > maxReports {
		t.Errorf("%d reports, want 1 to %d", n, maxReports)
	}
}
