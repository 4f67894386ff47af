package verbs_test

import (
	"errors"
	"strings"
	"testing"

	"softrdma/verbs"
)

func TestAbsentPeerIsExplained(t *testing.T) {
	needUDP(t)
	if *overMemory {
		t.Skip("SKIPPED with -samehost: the connection is refused")
	}
	a := newSide(t, addrA, 64, verbs.RC)
	local := a.qp.Endpoint()
	remote := verbs.Endpoint{QPN: 0x1234, GID: verbs.GID{10: 0xff, 11: 0xff, 12: 127, 13: 7, 15: 99}}
	if err := a.qp.Connect(local, remote, verbs.ConnectConfig{Timeout: 8, RetryCnt: 2}); err != nil {
		t.Fatal(err)
	}
	a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled})
	if wc := a.one(t); wc.Status != verbs.RetryExcErr || wc.Reason() != "SEND_REFUSED" {
		t.Fatalf("status %v, reason %s", wc.Status, wc.Reason())
	}
}

func TestBadRequestsAreRefusedByName(t *testing.T) {
	needUDP(t)
	a, _ := pair(t, 4096, verbs.RC)
	for name, w := range map[string]verbs.SendWR{
		"INLINE":    {Op: verbs.OpSend, Inline: make([]byte, 65)},
		"entries":   {Op: verbs.OpSend, SGL: make([]verbs.SGE, 5)},
		"operation": {Op: 99},
		"Bind":      {Op: verbs.OpBindMW},
	} {
		var pe *verbs.PostError
		if err := a.qp.PostSend(w); !errors.As(err, &pe) || pe.Index != 0 {
			t.Errorf("%s: %v", name, err)
		} else {
			t.Log(err)
		}
	}
	if _, err := verbs.Open(addrA, verbs.Config{}); err == nil {
		t.Error("opened an address twice")
	} else {
		t.Log(err)
	}
	if _, err := verbs.Open("no-such-interface", verbs.Config{}); err == nil {
		t.Error("opened an interface that does not exist")
	} else {
		t.Log(err)
	}
	if _, err := a.pd.RegisterMemory(make([]byte, 8), verbs.RemoteWrite); err == nil {
		t.Error("registered REMOTE_WRITE without LOCAL_WRITE")
	}
}

func TestTooManyReadsInFlightAreRefused(t *testing.T) {
	a := newSide(t, addrA, 64, verbs.RC)
	if err := a.qp.ToInit(verbs.InitAttr{}); err != nil {
		t.Fatal(err)
	}
	err := a.qp.ToRTR(verbs.RTRAttr{PathMTU: 1024, DestQPN: 5, AV: vector(a.dev), MaxDestRdAtomic: verbs.MaxReadAtomic + 1})
	if err == nil || !strings.Contains(err.Error(), "129") {
		t.Fatalf("max_dest_rd_atomic 129: %v", err)
	}
	if s := a.qp.State(); s != verbs.Init {
		t.Fatalf("state %v after a refusal", s)
	}
}

func TestOpenOfNoNameNamesTheDeviceThatIsInUse(t *testing.T) {
	dev, err := verbs.Open("", verbs.Config{})
	if err == nil { // otherwise the address is in use, and this is the error
		defer dev.Close()
		_, err = verbs.Open("", verbs.Config{})
	}
	if err == nil || !strings.HasPrefix(err.Error(), "open the best RDMA device") {
		t.Errorf("a second device on an address: %v", err)
	}
}
