package target_test

import (
	"errors"
	"strings"
	"testing"

	"softrdma/rdmacm"
	"softrdma/storage/nvmeof/auth"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/target"
	"softrdma/storage/nvmeof/wire/fabrics"
)

func secret(t *testing.T, text string) auth.Secret {
	t.Helper()
	s, err := auth.ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOnlyAuthenticatedHostsReadTheDisk(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		right := secret(t, "DHHC-1:01:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:")
		wrong := secret(t, "DHHC-1:00:9wCYVQqDvADjGIZo6q/v2SfmXZqqkNa9TcvYu97Ly3Q/gajh:")
		sub := &controller.Subsystem{NQN: nqn, Secrets: auth.Table{allowed: {Host: right, Controller: wrong}}}
		if err := errors.Join(s.target.AddSubsystem(sub), s.target.AddNamespace(sub, 1, newMemory(t), false)); err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			secrets auth.Secrets
			err     string
		}{
			{auth.Secrets{Host: right}, ""},
			{auth.Secrets{Host: right, Controller: wrong}, ""},
			{auth.Secrets{Host: wrong}, "authentication: the response is wrong"},
			{auth.Secrets{Host: right, Controller: right}, "authentication: the response is wrong: the controller does not know its secret"},
			{auth.Secrets{}, "the controller expects a secret"},
		} {
			cfg := host.Config{Subsystem: nqn, Host: allowed, Secrets: x.secrets, Queues: 2, Dialer: rdmacm.Dialer{Device: s.host.Device}}
			c, err := host.Dial(t.Context(), s.addr, cfg)
			if x.err != "" {
				if err == nil || !strings.Contains(err.Error(), x.err) {
					t.Errorf("expected %q, found %v", x.err, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			n, err := c.Namespace(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := n.ReadAt(make([]byte, 512), 0); err != nil {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestHostThatDoesNotAuthenticateIsGivenUp: it holds a controller and a connection.
func TestHostThatDoesNotAuthenticateIsGivenUp(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		right := secret(t, "DHHC-1:01:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:")
		if err := s.target.AddSubsystem(&controller.Subsystem{NQN: nqn, Secrets: auth.Table{auth.AnyHost: {Host: right}}}); err != nil {
			t.Fatal(err)
		}
		r := newRaw(t, s, 16)
		data := fabrics.ConnectData{Controller: fabrics.AnyController, Subsystem: nqn, Host: allowed}
		copy(r.mr.Bytes(), data.Append(nil))
		r.run(fabrics.Connect{QueueSize: 31}.Command(), fabrics.ConnectDataLen)
		if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "expected the host to authenticate within 30s") {
			t.Errorf("the reason of the end is %v", err)
		}
		r.end()
	})
}
