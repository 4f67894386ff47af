package console

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/capture/ladder"
	"softrdma/verbs"
)

// A side is one end of a connection.
type side struct {
	dev *verbs.Device
	mr  *verbs.MR
	cq  *verbs.CQ
	qp  *verbs.QP
}

func newSide(t *testing.T) *side {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	var s side
	var err error
	s.dev, err = verbs.Open(clitest.LoopbackDevice(t), verbs.Config{})
	must(err)
	t.Cleanup(func() { _ = s.dev.Close() })
	pd, err := s.dev.AllocPD()
	must(err)
	s.mr, err = pd.RegisterMemory(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite)
	must(err)
	s.cq, err = s.dev.CreateCQ(verbs.CQConfig{Depth: 8})
	must(err)
	s.qp, err = pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq})
	must(err)
	return &s
}

// A refused WRITE is one packet that both ends have seen, and both say why it is refused.
func TestConsoleDrawsBothEndsOfAConnection(t *testing.T) {
	at, token := serve(t)
	a, b := newSide(t), newSide(t)
	x, y := a.qp.Endpoint(), b.qp.Endpoint()
	if err := a.qp.Connect(x, y, verbs.ConnectConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := b.qp.Connect(y, x, verbs.ConnectConfig{}); err != nil {
		t.Fatal(err)
	}
	beyond := b.mr.Addr() + 60
	if err := a.qp.PostSend(verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: beyond, RKey: b.mr.RKey()}); err != nil {
		t.Fatal(err)
	}
	if wc, err := a.cq.WaitOne(t.Context()); wc.Status != verbs.RemAccessErr {
		t.Fatalf("%+v, %v", wc, err)
	}
	get(t, at+"/api/snapshot", token, &struct{}{})
	var h struct {
		Lines []string
		Other *struct {
			PID    int
			Device string
			QPN    uint32
			Lines  []string
		}
		Ladder ladder.Figure
	}
	get(t, fmt.Sprintf("%s/api/processes/%d/devices/%s/qps/%d", at, os.Getpid(), a.dev.Addr().Addr(), a.qp.Number()), token, &h)
	if h.Other == nil || h.Other.PID != os.Getpid() || h.Other.QPN != b.qp.Number() || len(h.Ladder.Connections) != 1 {
		t.Fatalf("%+v", h)
	}
	of := func(lines []string, want ...string) {
		t.Helper()
		all := strings.Join(lines, "\n")
		if slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(all, w) }) {
			t.Errorf("expected %q in\n%s", want, all)
		}
	}
	of(h.Lines, "completed work request", "NAK_REMOTE_ACCESS", "the peer says KEY_BOUNDS", "RTS -> ERR")
	of(h.Other.Lines, "refused KEY_BOUNDS")
	refused := slices.DeleteFunc(slices.Clone(h.Ladder.Connections[0].Rungs), func(r ladder.Rung) bool { return !r.Fault })
	if len(refused) != 1 || !strings.HasPrefix(refused[0].Label, "RDMA WRITE Only") || !refused[0].Received || slices.Contains(refused[0].Numbers, 0) {
		t.Errorf("%+v", h.Ladder)
	}
}
