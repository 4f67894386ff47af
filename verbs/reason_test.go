package verbs_test

import (
	"errors"
	"strings"
	"testing"

	"softrdma/verbs"
)

// reasonOf returns the reason's name that errors.As finds in an error, or "".
func reasonOf(err error) string {
	var why verbs.ReasonError
	if !errors.As(err, &why) {
		return ""
	}
	return why.Reason()
}

// errors.As finds the reason of each refused call, whatever layer refuses it.
func TestRefusedCallsNameTheirReason(t *testing.T) {
	needUDP(t) // it opens addresses as devices of RoCE v2
	s := ends{size: 4096, qp: verbs.QPConfig{Type: verbs.RC, MaxSend: 1}}.side(t, "127.7.31.1")
	other := ends{size: 64, qp: verbs.QPConfig{Type: verbs.RC}}.side(t, "127.7.31.2")
	open := func(name string, cfg verbs.Config) error {
		d, err := verbs.Open(name, cfg)
		if err == nil {
			d.Close()
		}
		return err
	}
	_, depth := s.dev.CreateCQ(verbs.CQConfig{Depth: -1})
	_, foreign := s.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: other.cq})
	_, kind := s.pd.CreateQP(verbs.QPConfig{Type: 99, SendCQ: s.cq})
	_, control := s.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq, Congestion: "none such"})
	_, access := s.pd.RegisterMemory(make([]byte, 8), verbs.RemoteWrite)
	_, gid := s.pd.CreateAH(verbs.AddressVector{})
	_, secret := verbs.SharedSecret(nil)
	state := s.qp.PostSend(verbs.SendWR{})
	illegal := s.qp.ToRTS(verbs.RTSAttr{})
	if err := s.qp.ToInit(verbs.InitAttr{}); err != nil {
		t.Fatal(err)
	}
	missing := s.qp.ToRTR(verbs.RTRAttr{})
	limits := s.qp.ToRTR(verbs.RTRAttr{PathMTU: 7, DestQPN: 1, AV: verbs.AddressVector{DGID: other.dev.GID()}})
	busy := s.pd.Dealloc()
	if err := other.dev.Close(); err != nil {
		t.Fatal(err)
	}
	_, closed := other.dev.AllocPD()
	if err := s.mr.Deregister(); err != nil {
		t.Fatal(err)
	}
	gone := s.mr.Reregister(nil, 0)
	for _, c := range []struct {
		what string
		err  error
		want string
	}{
		{"open of no interface", open("nosuch0", verbs.Config{}), "DEVICE_OPEN"},
		{"open of a taken address", open("127.7.31.1", verbs.Config{}), "DEVICE_OPEN"},
		{"open without a daemon", open("daemon:/nonexistent/socket", verbs.Config{}), "DEVICE_OPEN"},
		{"open with an MTU", open("127.7.31.3", verbs.Config{MTU: 3}), "ARGUMENT"},
		{"open with TLS over RoCE", open("127.7.31.3", verbs.Config{NoCRC: true}), "UNSUPPORTED"},
		{"depth of a CQ", depth, "ARGUMENT"},
		{"CQ of another device", foreign, "ARGUMENT"},
		{"type of a QP", kind, "UNSUPPORTED"},
		{"congestion control", control, "ARGUMENT"},
		{"access rights", access, "LOCAL_ACCESS"},
		{"no GID", gid, "ARGUMENT"},
		{"short secret", secret, "ARGUMENT"},
		{"post in RESET", state, "LOCAL_QP_STATE"},
		{"RESET to RTS", illegal, "QP_TRANSITION"},
		{"RTR without attributes", missing, "QP_ATTRIBUTES"},
		{"path MTU 7", limits, "QP_ATTRIBUTE_RANGE"},
		{"dealloc of a PD in use", busy, "OBJECT_BUSY"},
		{"closed device", closed, "DEVICE_CLOSED"},
		{"destroyed region", gone, "OBJECT_DESTROYED"},
	} {
		if got := reasonOf(c.err); got != c.want {
			t.Errorf("%s: found reason %q of %v, expected %s", c.what, got, c.err, c.want)
		}
	}
}

// names checks that an error has a text.
func names(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("expected %q in the error, found %v", text, err)
	}
}

func TestErrorOfATransitionNamesBothStates(t *testing.T) {
	s := ends{size: 64, qp: verbs.QPConfig{Type: verbs.RC}}.side(t, "127.7.31.4")
	names(t, s.qp.ToRTS(verbs.RTSAttr{}), "from RESET to RTS")
	if err := s.qp.ToInit(verbs.InitAttr{}); err != nil {
		t.Fatal(err)
	}
	names(t, s.qp.ToRTR(verbs.RTRAttr{PathMTU: 7, DestQPN: 1, AV: vector(s.dev)}), "from INIT to RTR")
}

func TestFailedCompletionNamesItsReason(t *testing.T) {
	a, _ := ends{a: "127.7.31.5", b: "127.7.31.6", qp: verbs.QPConfig{Type: verbs.RC}}.pair(t)
	w := a.write(0, 8)
	w.RKey ^= 1 << 20
	a.post(t, w)
	wc := a.one(t)
	var why verbs.ReasonError
	if err := wc.Err(); !errors.As(err, &why) || why.Reason() != "NAK_REMOTE_ACCESS" || why.Found() == 0 {
		t.Errorf("found %v", err)
	}
}

// The error of a full queue contains its depth.
func TestFullQueueNamesItsReason(t *testing.T) {
	a, _ := ends{a: "127.7.31.7", b: "127.7.31.8", qp: verbs.QPConfig{Type: verbs.RC, MaxRecv: 7}}.pair(t)
	err := a.qp.PostRecv(make([]verbs.RecvWR, 64)...)
	var why verbs.ReasonError
	if !errors.Is(err, verbs.ErrQueueFull) || !errors.As(err, &why) || why.Reason() != "QUEUE_FULL" || why.Expected() < 7 || why.Found() != why.Expected() {
		t.Errorf("found %v", err)
	}
}
