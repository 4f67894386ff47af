package verbs_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/internal/capture"
	"softrdma/verbs"
)

func TestFailureIsWrittenWithItsPackets(t *testing.T) {
	a, b := ends{a: "127.7.41.1", b: "127.7.41.2", qp: verbs.QPConfig{Type: verbs.RC}}.pair(t)
	dir := filepath.Join(t.TempDir(), "records")
	if err := a.dev.KeepRecords(dir); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := a.qp.PostSend(a.write(0, 100)); err != nil {
			t.Fatal(err)
		}
		if wc := a.one(t); wc.Status != verbs.Success {
			t.Fatal(wc.Err())
		}
	}
	wr := a.write(0, 100)
	wr.RKey ^= 1
	wr.WRID = 0x77
	if err := a.qp.PostSend(wr); err != nil {
		t.Fatal(err)
	}
	if wc := a.one(t); wc.Status != verbs.RemAccessErr {
		t.Fatal(wc.Err())
	}
	if err := a.dev.FlushRecords(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 2 || !strings.HasSuffix(names[0], "-1.pcapng") || !strings.HasSuffix(names[1], "-1.txt") {
		t.Fatalf("files %v, %v, expected one of packets and one of text", names, err)
	}
	text, err := os.ReadFile(names[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"sent      RC RDMA WRITE Only QP ", "received  RC Acknowledge", "NAK Remote Access Error",
		"state     RTS -> ERR, NAK_REMOTE_ACCESS: ", "completed work request 0x77 with IBV_WC_REM_ACCESS_ERR, NAK_REMOTE_ACCESS: ",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("expected %q in\n%s", want, text)
		}
	}
	file, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	r, err := capture.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	writes, naks := 0, 0
	for {
		var p capture.Packet
		if err := r.Next(&p); err != nil {
			if err != io.EOF {
				t.Fatal(err)
			}
			break
		}
		switch s := p.String(); {
		case strings.Contains(s, "RDMA WRITE Only") && p.Truncated && from(&p, a, b):
			writes++
		case strings.HasPrefix(s, "RC Acknowledge") && strings.Contains(s, "NAK Remote Access Error") && from(&p, b, a):
			naks++
		}
	}
	if writes < 2 || naks != 1 {
		t.Errorf("%d WRITEs and %d NAKs in the capture, expected 2 or more and 1:\n%s", writes, naks, text)
	}
	// What the program asks for is no failure.
	if err := b.qp.ToErr(); err != nil {
		t.Fatal(err)
	}
	if err := b.dev.KeepRecords(dir); err != nil {
		t.Fatal(err)
	}
	if err := b.dev.FlushRecords(); err != nil {
		t.Fatal(err)
	}
	if again, _ := filepath.Glob(filepath.Join(dir, "*")); len(again) != 2 {
		t.Errorf("files %v, expected no new one", again)
	}
}

// from reports whether a packet has the addresses of two ends. Those of a fabric's ports stand for LIDs.
func from(p *capture.Packet, x, y *side) bool {
	return *overFabric || p.Src.Addr() == x.dev.Addr().Addr() && p.Dst.Addr() == y.dev.Addr().Addr()
}

func TestRecordsThatCannotBeWrittenAreReported(t *testing.T) {
	a, _ := ends{a: "127.7.41.3", b: "127.7.41.4", qp: verbs.QPConfig{Type: verbs.RC}}.pair(t)
	dir := filepath.Join(t.TempDir(), "records")
	if err := a.dev.KeepRecords(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	wr := a.write(0, 100)
	wr.RKey ^= 1
	if err := a.qp.PostSend(wr); err != nil {
		t.Fatal(err)
	}
	if wc := a.one(t); wc.Status != verbs.RemAccessErr {
		t.Fatal(wc.Err())
	}
	if err := a.dev.Close(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Close returns %v, expected an error about %s", err, dir)
	}
	if err := a.dev.KeepRecords(filepath.Join(os.DevNull, "x")); err == nil {
		t.Error("a directory below a file is accepted")
	}
}
