package rdmacm

import (
	"context"
	"errors"
	"testing"

	"softrdma/verbs"
)

// errors.As finds the reason of each refused call and failed connection.
func TestRefusalsNameTheirReason(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	_, again := Listen(l.Addr().String(), ListenConfig{})
	d := Dialer{Local: addr(clientIP, 0)}
	_, port := d.Dial(within(t), serverIP+":0")
	_, noListener := d.Dial(within(t), serverIP+":9")
	_, route := (&Dialer{}).Dial(within(t), "[fe80::1]:7")
	d.Param.PrivateData = make([]byte, MaxPrivateRequest+1)
	_, private := d.Dial(within(t), l.Addr().String())
	d = Dialer{Local: addr(clientIP, 0)}
	d.Param.RetryCount = 99
	_, retries := d.Dial(within(t), l.Addr().String())
	ch := NewEventChannel()
	defer ch.Close()
	id, err := ch.NewID(PortSpaceTCP)
	if err != nil {
		t.Fatal(err)
	}
	state := id.Connect(nil)
	option := id.SetOption(OptionTOS, 256)
	if err := id.Destroy(); err != nil {
		t.Fatal(err)
	}
	destroyed := id.Listen(1)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, dial := (&Dialer{Local: addr(clientIP, 0)}).Dial(over, l.Addr().String())
	_, accept := l.Accept(over)
	_, next := ch.Next(over)
	for what, err := range map[string]error{"dial": dial, "accept": accept, "next": next} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that has ended: %v, expected %v", what, err, context.Canceled)
		}
	}
	for _, c := range []struct {
		what string
		err  error
		want string
	}{
		{"port of another listener", again, "ID_PORT"},
		{"port 0", port, "ARGUMENT"},
		{"port without listener", noListener, "CM_REJECTED"},
		{"link-local address without a zone", route, "ADDRESS_UNREACHABLE"},
		{"too much private data", private, "CM_PRIVATE_DATA"},
		{"retry count 99", retries, "ARGUMENT"},
		{"connect before the address is resolved", state, "ID_STATE"},
		{"option out of range", option, "ARGUMENT"},
		{"destroyed id", destroyed, "OBJECT_DESTROYED"},
		{"dial with an ended context", dial, "WAIT_ENDED"},
		{"accept with an ended context", accept, "WAIT_ENDED"},
		{"next event with an ended context", next, "WAIT_ENDED"},
	} {
		var why verbs.ReasonError
		if !errors.As(c.err, &why) || why.Reason() != c.want {
			t.Errorf("%s: found reason %v of %v, expected %s", c.what, why, c.err, c.want)
		}
	}
}
