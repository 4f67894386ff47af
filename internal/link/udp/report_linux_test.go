//go:build linux && !softrdma_portable

package udp

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/link"
)

// TestLookFindsReportOfClosedPort: Look finds the ICMP error about a packet, with the
// beginning of the packet.
func TestLookFindsReportOfClosedPort(t *testing.T) {
	for _, host := range loopbacks(t) {
		t.Run(host, func(t *testing.T) {
			a, b := pair(t, host, Config{})
			dst := b.Local()
			f := openFlow(t, a, dst, 7)
			_ = b.Close()
			data := pattern(300)
			send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{data}, Bytes: len(data), Size: len(data)})
			n := 0
			collect(t, a, f, func(r *link.Report) {
				if n++; r.Dst != dst || r.Src != f.Src || r.Err != syscall.ECONNREFUSED || !bytes.Equal(r.Quoted, data[:quoteLen]) {
					t.Errorf("report %+v, want ECONNREFUSED from %v to %v and the first %d bytes", r, f.Src, dst, quoteLen)
				}
			})
			if n != 1 {
				t.Fatalf("%d reports, want 1", n)
			}
			a.Look(&f.Flow)
			if a.NextReport() != nil {
				t.Error("a report was given twice")
			}
			// The next send does not fail because of a report that was already read.
			send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{data}, Bytes: len(data), Size: len(data)})
			n = 0
			collect(t, a, f, func(*link.Report) { n++ })
			if n != 1 {
				t.Errorf("%d reports of the second packet, want 1", n)
			}
		})
	}
}

// collect waits until f was called with at least one report.
func collect(t *testing.T, l *Link, flow *link.DatagramFlow, f func(*link.Report)) {
	t.Helper()
	some := false
	for end := time.Now().Add(10 * time.Second); !some; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no report")
		}
		l.Look(&flow.Flow)
		for r := l.NextReport(); r != nil; r = l.NextReport() {
			some = true
			f(r)
		}
	}
}

// TestReportsOfSendErrorsAreKept: a send that fails because of an earlier packet takes the
// report off the socket, and NextReport still returns it.
func TestReportsOfSendErrorsAreKept(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	f := openFlow(t, a, b.Local(), 7)
	_ = b.Close()
	tx := &link.Tx{Flow: &f.Flow, Pieces: [][]byte{make([]byte, 64)}, Bytes: 64, Size: 64}
	send(t, a, tx)
	if a.Send(tx) == nil {
		t.Fatal("the second send did not fail")
	}
	n := 0
	for a.NextReport() != nil {
		n++
	}
	if n == 0 {
		t.Error("nothing is reported")
	}
}

// TestReportsAreBounded: excess reports are dropped.
func TestReportsAreBounded(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	f := openFlow(t, a, b.Local(), 7)
	_ = b.Close()
	for range 3 * maxReports {
		_ = a.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{make([]byte, 64)}, Bytes: 64, Size: 64})
	}
	n := 0
	for a.NextReport() != nil {
		n++
	}
	if n == 0 || n > maxReports {
		t.Errorf("%d reports, want 1 to %d", n, maxReports)
	}
}
