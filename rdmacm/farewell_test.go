package rdmacm

import (
	"errors"
	"strings"
	"testing"

	"softrdma/verbs"
)

// The end of a connection and what is flushed say why the peer went.
func TestDisconnectedConnSaysWhyThePeerWent(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	for name, c := range map[string]struct {
		end  func(t *testing.T, c *Conn)
		want string
	}{
		"closed":    {func(t *testing.T, c *Conn) { noError(t, c.Disconnect()) }, "CM_ENDED"},
		"destroyed": {func(t *testing.T, c *Conn) { noError(t, c.end.id.Destroy()) }, "CM_ABANDONED"},
		"failed": {func(t *testing.T, c *Conn) {
			noError(t, c.QP().PostSend(verbs.SendWR{WRID: 1, Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: 8, Length: 8, LKey: 0xdead}}}))
			for c.QP().State() != verbs.Err {
				_, err := c.SendCQ().Poll(make([]verbs.WC, 1))
				noError(t, err)
			}
			noError(t, c.Disconnect())
		}, "LOCAL_KEY"},
	} {
		client, server := connected(t, l, Dialer{Local: addr(clientIP, 0)})
		noError(t, client.QP().PostRecv(verbs.RecvWR{WRID: 5}))
		c.end(t, server)
		<-client.Done()
		var left *DisconnectedError
		if err := client.Err(); !errors.As(err, &left) || left.Peer() == nil || left.Peer().Reason() != c.want || !errors.Is(err, ErrDisconnected) ||
			!strings.Contains(err.Error(), "the peer says: "+c.want) {
			t.Errorf("%s: found %v, expected %s", name, err, c.want)
		}
		wc := make([]verbs.WC, 1)
		for n := 0; n == 0; {
			var err error
			n, err = client.RecvCQ().Poll(wc)
			noError(t, err)
		}
		var failed *verbs.CompletionError
		if err := wc[0].Err(); !errors.As(err, &failed) || failed.Status != verbs.WRFlushErr || failed.Reason() != "FLUSHED" ||
			failed.Peer() == nil || failed.Peer().Reason() != c.want {
			t.Errorf("%s: the receive says %v, expected %s", name, err, c.want)
		}
		_ = server.Close()
		noError(t, client.Close())
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
