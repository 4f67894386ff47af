package verbs_test

import (
	"errors"
	"strings"
	"testing"

	"softrdma/verbs"
)

// The completion of a refused request says what both ends know, unless the peer keeps its reasons.
func TestRefusedRequestSaysBothSides(t *testing.T) {
	for _, kept := range []bool{false, true} {
		a, b := ends{a: addrA, b: addrB, qp: verbs.QPConfig{Type: verbs.RC}, config: verbs.Config{KeepReasons: kept}}.pair(t)
		readOnly, err := b.pd.RegisterMemory(make([]byte, 64), verbs.RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		wr := a.write(0, 8)
		wr.RemoteAddr, wr.RKey = readOnly.Addr(), readOnly.RKey()
		a.post(t, wr)
		wc := a.one(t)
		err = wc.Err()
		var failed *verbs.CompletionError
		if !errors.As(err, &failed) || wc.Status != verbs.RemAccessErr || failed.Reason() != "NAK_REMOTE_ACCESS" {
			t.Fatalf("kept %v: %v", kept, err)
		}
		const says = "the peer says: KEY_ACCESS: memory lacks the access right: needs REMOTE_WRITE, has REMOTE_READ (see: softrdma explain KEY_ACCESS)"
		peer := failed.Peer()
		switch {
		case kept && (peer != nil || strings.Contains(err.Error(), "the peer says")):
			t.Errorf("peer keeps its reasons: %v", err)
		case !kept && (peer == nil || peer.Reason() != "KEY_ACCESS" || !strings.Contains(err.Error(), says)):
			t.Errorf("expected %q, found %v", says, err)
		}
		event(t, b.dev, verbs.EventQPAccessErr)
		a.dev.Close()
		b.dev.Close()
	}
}
