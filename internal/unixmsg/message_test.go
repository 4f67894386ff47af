package unixmsg

import (
	"errors"
	"strings"
	"testing"

	"softrdma/internal/reason"
)

func malformed(expected, found uint64) error {
	return reason.Detail{Reason: reason.HostMessage, Expected: expected, Found: found}.Err()
}

func TestProtocolMessageTooLongIsRefused(t *testing.T) {
	p := Protocol{MaxMessage: 64, Malformed: malformed}
	var why *reason.Error
	if _, err := p.Message(1, strings.Repeat("x", 64)); !errors.As(err, &why) || why.Detail.Reason != reason.HostMessage {
		t.Errorf("%v, expected HOST_MESSAGE", err)
	}
}

func TestProtocolRefusalKeepsReasonAndText(t *testing.T) {
	p := Protocol{MaxMessage: 512, Malformed: malformed, Refused: reason.HostRefused}
	for _, c := range []struct {
		err  error
		want reason.Detail
		text string
	}{
		{&reason.Error{Detail: reason.Detail{Reason: reason.FabricHeld, Expected: 1, Found: 2}, Text: "held by 2"}, reason.Detail{Reason: reason.FabricHeld, Expected: 1, Found: 2}, "held by 2"},
		{errors.New("something else"), reason.Detail{Reason: reason.HostRefused}, "something else"},
		{&reason.Error{Detail: reason.Detail{Reason: reason.HostUser}, Text: strings.Repeat("long ", 1000)}, reason.Detail{Reason: reason.HostUser}, reason.Detail{Reason: reason.HostUser}.String()},
	} {
		var got *reason.Error
		if !errors.As(p.ParseRefusal(p.Refusal(c.err)), &got) || got.Detail != c.want || got.Error() != c.text {
			t.Errorf("%.30v became %v, expected %v", c.err, got, c.want)
		}
	}
}

func FuzzRefusal(f *testing.F) {
	p := Protocol{MaxMessage: 512, Malformed: malformed, Refused: reason.HostRefused}
	f.Add(p.Refusal(errors.New("x")))
	f.Add([]byte("\x06{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return // the end of a connection
		}
		if err := p.ParseRefusal(b); err == nil || len(p.Refusal(err)) > 512 && len(b) <= 512 {
			t.Errorf("%q: %v", b, err)
		}
	})
}
