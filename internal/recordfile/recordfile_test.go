package recordfile

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
	"softrdma/internal/wire/ib"
)

// fill records something of every kind.
func fill(m *recorder.Memory) {
	var r recorder.Recorder
	var refusals recorder.Refusals
	var pairs recorder.Pairs
	m.Use(time.Unix(1000, 0), &r, &refusals, &pairs)
	pairs.Connect(0x300, netip.MustParseAddr("127.0.0.9"))
	p := &ib.Packet{}
	p.Opcode, p.PSN, p.DestQPN, p.RETH = ib.RCWriteOnly, 7, 0x400, ib.RETH{Addr: 0x1000, RKey: 0x22, Length: 8}
	r.Packet(recorder.Sent, time.Millisecond, 0x300, p, 8, 1)
	d := reason.Detail{Reason: reason.RetryExceeded, Expected: 7, Found: 8}
	r.Add(recorder.Record{Kind: recorder.Completed, Time: 2 * time.Millisecond, QPN: 0x300, WRID: 9, Status: uint8(queue.RetryExcErr), Detail: d})
	r.Add(recorder.Record{Kind: recorder.State, Time: 2 * time.Millisecond, QPN: 0x300, From: uint8(qp.RTS), To: uint8(qp.Err), Detail: d})
	refusals.Add(3*time.Millisecond, 0x300, reason.Detail{Reason: reason.KeyBounds})
}

func recording(m *recorder.Memory) *Recording {
	s, _ := m.Unsaved()
	at := netip.MustParseAddrPort("127.0.0.8:4791")
	return &Recording{Snapshot: s, Addr: at, Local: at, Ended: 4711}
}

func TestSaveTakesNamesThatAreFree(t *testing.T) {
	path := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Symlink(outside, filepath.Join(path, "4711-127.0.0.8-qp000300-2.pcapng")); err != nil {
		t.Fatal(err)
	}
	dir, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	slot := recorder.SlotIn(make([]byte, recorder.SlotSize))
	fill(&slot.Memory)
	r := recording(&slot.Memory)
	if err := r.Save(dir, 4711, r.Latest()); err != nil {
		t.Fatal(err)
	}
	if err := r.Save(dir, 4711, r.Latest()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Save through a link out of the directory returns %v", err)
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("Save has followed a link out of the directory")
	}
	text, err := os.ReadFile(filepath.Join(path, "4711-127.0.0.8-qp000300-1.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"flight recorder of 127.0.0.8:4791 at ", ": 4 records, 0 older ones lost\n", "    0.000000  QP 0x000300  sent      RC RDMA WRITE Only QP 0x000400 PSN 0x000007",
		"completed work request 0x9 with IBV_WC_RETRY_EXC_ERR", "RTS -> ERR, RETRY_EXCEEDED", "KEY_BOUNDS", "  process 4711 ended without closing the device",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("expected %q in\n%s", want, text)
		}
	}
	if st, err := os.Stat(filepath.Join(path, "4711-127.0.0.8-qp000300-1.pcapng")); err != nil || st.Size() == 0 {
		t.Errorf("pcapng: %v, %v", st, err)
	}
}

// Whatever a program has left in its memory, it is written in bounded time and size, or left out.
func FuzzMemory(f *testing.F) {
	f.Add(uint16(0), []byte{})
	f.Add(uint16(64), bytes.Repeat([]byte{0xff}, 64))
	f.Add(uint16(16448), bytes.Repeat([]byte{0xff, 0, 1, 2}, 100))
	f.Add(uint16(117), []byte("0000")) // an opcode that does not exist
	f.Add(uint16(33408), bytes.Repeat([]byte{1, 0, 0, 32}, 100))
	f.Fuzz(func(t *testing.T, at uint16, b []byte) {
		memory := make([]byte, recorder.SlotSize)
		m := &recorder.SlotIn(memory).Memory
		fill(m)
		copy(memory[at:], b)
		if len(b) >= 8 { // of every record, too
			for i := 64; i+64 <= len(memory); i += 64 {
				binary.NativeEndian.PutUint64(memory[i+int(at%64)&^7:], binary.NativeEndian.Uint64(b))
			}
		}
		r := recording(m)
		var text, packets bytes.Buffer
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if err := r.WriteCapture(&packets); err != nil {
			t.Fatal(err)
		}
		if text.Len() > 1<<20 || packets.Len() > 1<<20 || strings.ContainsFunc(text.String(), func(c rune) bool { return c < ' ' && c != '\n' }) {
			t.Errorf("%d bytes of text, %d of packets", text.Len(), packets.Len())
		}
		m.Pairs().Why(0x300)
	})
}
