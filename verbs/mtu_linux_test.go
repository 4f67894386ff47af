package verbs_test

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"softrdma/internal/host/hosttest"
	"softrdma/verbs"
)

// When the MTU of an interface is lowered under a connection, the error contains both lengths.
func TestPathThatShrinksIsNamed(t *testing.T) {
	hosttest.InNamespace(t, func(t *testing.T) {
		l, _ := hosttest.Cable(t, "mtu0", "10.1.2.3/24")
		d, err := verbs.Open("mtu0", verbs.Config{NoLoopback: true})
		hosttest.Must(t, err)
		defer d.Close()
		pd, err := d.AllocPD()
		hosttest.Must(t, err)
		cq, err := d.CreateCQ(verbs.CQConfig{})
		hosttest.Must(t, err)
		mr, err := pd.RegisterMemory(make([]byte, 1<<14), verbs.LocalWrite)
		hosttest.Must(t, err)
		q, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
		hosttest.Must(t, err)
		// There is no peer, and nothing answers: the packets do not even leave.
		peer := q.Endpoint()
		peer.GID, err = verbs.ParseGID("::ffff:10.1.2.4")
		hosttest.Must(t, err)
		hosttest.Must(t, q.Connect(q.Endpoint(), peer, verbs.ConnectConfig{RetryCnt: 1, Timeout: 10}))
		hosttest.Must(t, netlink.LinkSetMTU(l, 800))
		hosttest.Must(t, q.PostSend(verbs.SendWR{
			Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{mr.SGE(0, mr.Len())}, RemoteAddr: 1, RKey: 1,
		}))
		hosttest.Must(t, cq.Wait(t.Context()))
		var wc [1]verbs.WC
		if _, err := cq.Poll(wc[:]); err != nil {
			t.Fatal(err)
		}
		err = wc[0].Err()
		if err == nil || wc[0].Reason() != "PATH_MTU" || !strings.Contains(err.Error(), "expected at most 800 bytes, found 10") {
			t.Errorf("%v, expected PATH_MTU with 800 and about 1070 bytes", err)
		}

		hosttest.Must(t, d.Close())
		hosttest.Must(t, netlink.LinkSetMTU(l, 300))
		_, err = verbs.Open("mtu0", verbs.Config{})
		if err == nil || !strings.Contains(err.Error(), "mtu0") || !strings.Contains(err.Error(), "expected at least 336 bytes, found 300") {
			t.Errorf("open on an interface of MTU 300: %v", err)
		}
		i, err := verbs.Open("iwarp:mtu0", verbs.Config{})
		if err != nil {
			t.Fatalf("iWARP needs no MTU: %v", err)
		}
		hosttest.Must(t, i.Close())
	})
}
