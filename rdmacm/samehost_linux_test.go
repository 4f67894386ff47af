package rdmacm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// nameOf returns the name of an error's reason.
func nameOf(err error) string {
	var why verbs.ReasonError
	if !errors.As(err, &why) {
		return ""
	}
	return why.Reason()
}

// If one side requires memory and there is no path, the connection fails at both sides with
// the reason.
func TestRequiredSameHostRefusesConnections(t *testing.T) {
	t.Setenv("SOFTRDMA_HOST_DIR", t.TempDir())
	for name, c := range map[string]struct{ server, client verbs.SameHost }{
		"the client requires it": {verbs.SameHostOff, verbs.SameHostRequire},
		"the server requires it": {verbs.SameHostRequire, verbs.SameHostOff},
	} {
		t.Run(name, func(t *testing.T) {
			var devices [2]*verbs.Device
			for i, addr := range []string{"127.8.43.1", "127.8.43.2"} {
				dev, err := verbs.NewStack().Open(addr, verbs.Config{SameHost: []verbs.SameHost{c.server, c.client}[i]})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = dev.Close() })
				devices[i] = dev
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			l, err := rdmacm.Listen("127.8.43.1:7000", rdmacm.ListenConfig{Device: devices[0]})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			accepted := make(chan error, 1)
			go func() {
				r, err := l.Request(ctx)
				if err == nil {
					_, err = r.Accept(ctx, rdmacm.ConnParam{})
				}
				accepted <- err
			}()
			_, err = rdmacm.Dial(ctx, "127.8.43.1:7000", rdmacm.Dialer{Device: devices[1]})
			if c.client == verbs.SameHostRequire {
				if nameOf(err) != "HOST_UNPUBLISHED" {
					t.Errorf("client: %v", err)
				}
				return
			}
			var rejected *rdmacm.RejectedError
			if !errors.As(err, &rejected) || !strings.HasPrefix(string(rejected.PrivateData), "HOST_UNPUBLISHED: ") {
				t.Errorf("client: %v", err)
			}
			if e := <-accepted; nameOf(e) != "HOST_UNPUBLISHED" {
				t.Errorf("server: %v", e)
			}
		})
	}
}
