package capture

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// Writers of one file, as several processes have them, leave it whole: each packet is there once.
func TestSharedWritersKeepPacketsWhole(t *testing.T) {
	const writers, packets = 4, 200
	name := filepath.Join(t.TempDir(), "shared.pcapng")
	var ends []func() error
	var all []*Writer
	for i := range writers {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		start := Continue
		if i == 0 {
			start = NewSharedWriter
		}
		w, err := start(f)
		if err != nil {
			t.Fatal(err)
		}
		all, ends = append(all, w), append(ends, func() error { return errors.Join(w.Close(), f.Close()) })
	}
	src, dst := netip.MustParseAddrPort("10.0.0.1:5000"), netip.MustParseAddrPort("10.0.0.2:4791")
	var group sync.WaitGroup
	for i, w := range all {
		group.Go(func() {
			for n := range packets {
				p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, DestQPN: uint32(i)}, Payload: make([]byte, n*7)}
				w.Trace(event(trace.Sent, src, dst, uint16(n), p))
			}
		})
	}
	group.Wait()
	for _, end := range ends {
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[uint32]int)
	for p := new(Packet); ; {
		if err := r.Next(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ICRC != Good || len(p.Payload) != found[p.DestQPN]*7 {
			t.Fatalf("packet %d of writer %d: ICRC %v, %d bytes", found[p.DestQPN], p.DestQPN, p.ICRC, len(p.Payload))
		}
		found[p.DestQPN]++
	}
	for i := range uint32(writers) {
		if found[i] != packets {
			t.Errorf("writer %d: %d packets, expected %d", i, found[i], packets)
		}
	}
}
