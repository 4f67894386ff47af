//go:build linux

package uverbs

import (
	"os"
	"path/filepath"
	"testing"

	"softrdma/internal/reason"
	"softrdma/internal/registry"
	"softrdma/internal/trace"
	"softrdma/verbs"
)

// The counters of rxe are those of the device and of all programs on its address, also when these
// have ended.
func TestHardwareCountersAddProgramsUp(t *testing.T) {
	s := newServer(t, "127.14.3.40")
	file := func(name string) string {
		t.Helper()
		if err := s.refresh(0); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(s.Tree(), "sys/class/infiniband/rxe0/ports/1/hw_counters", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	s.devices[0].Adapter.Trace.Refuse(0, reason.Detail{Reason: reason.SequenceDuplicate})
	for i, want := range []string{"2\n", "3\n"} {
		d, err := verbs.Open("shared:"+s.Socket(), verbs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		counts := registry.Of(d).Adapter.Trace
		counts.Refuse(0, reason.Detail{Reason: reason.SequenceDuplicateUnknown})
		if got := file("duplicate_request"); got != want {
			t.Errorf("program %d: %q, expected %q", i, got, want)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "no slot", func() bool { return s.Count().Slots == 0 })
		if got := file("duplicate_request"); got != want {
			t.Errorf("after program %d: %q, expected %q", i, got, want)
		}
		counts.Refuse(0, reason.Detail{Reason: reason.SequenceDuplicateUnknown}) // of a device that has ended
	}
	for name, want := range map[string]string{"lifespan": "10\n", "link_downed": "0\n", "send_err": "0\n", "retry_exceeded_err": "0\n"} {
		if got := file(name); got != want {
			t.Errorf("%s: %q, expected %q", name, got, want)
		}
	}
}

// What the standard counts is payload in words, and the packets of the device.
func TestPortCountersCountWords(t *testing.T) {
	s := newServer(t, "127.14.3.41")
	dir := filepath.Join(s.Tree(), "sys/class/infiniband/rxe0/ports/1/counters")
	s.devices[0].Adapter.Trace.Refuse(0, reason.Detail{Reason: reason.PacketICRC})
	s.devices[0].Adapter.Trace.Refuse(0, reason.Detail{Reason: reason.PacketPKey})
	d, err := verbs.Open("shared:"+s.Socket(), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	registry.Of(d).Adapter.Trace.Mirror.Traffic = trace.Traffic{Sent: 4096, Received: 1023, SentPackets: 7, ReceivedPackets: 9}
	if err := s.refresh(0); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"port_xmit_data": "1024\n", "port_rcv_data": "255\n", "port_xmit_packets": "7\n", "port_rcv_packets": "9\n",
		"port_rcv_errors": "1\n", "port_rcv_constraint_errors": "1\n", "port_xmit_discards": "0\n", "symbol_error": "0\n",
		"link_downed": "0\n",
	} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); string(b) != want {
			t.Errorf("%s: %q, expected %q, error %v", name, b, want, err)
		}
	}
}

// A program that opens a file of counters, also without the preloaded library, soon finds them
// current.
func TestCountersFollowTheirReaders(t *testing.T) {
	s := newServer(t, "127.14.3.42")
	path := filepath.Join(s.Tree(), "sys/class/infiniband/rxe0/ports/1/hw_counters/duplicate_request")
	for _, want := range []string{"1\n", "2\n"} {
		s.devices[0].Adapter.Trace.Refuse(0, reason.Detail{Reason: reason.SequenceDuplicate})
		eventually(t, "the reader finds "+want, func() bool {
			b, err := os.ReadFile(path)
			return err == nil && string(b) == want
		})
	}
}
