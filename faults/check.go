package faults

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// An Error says which field of which rule is wrong.
type Error struct {
	Rule            int    // from 0
	Field           string // as a file has it
	Expected, Found string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("rule %d: %s", e.Rule+1, e.Text())
}

// Text returns the error without the rule's number.
func (e *Error) Text() string {
	return fmt.Sprintf("%s %q: expected %s", e.Field, e.Found, e.Expected)
}

// maxRules bounds the rules of a device.
const maxRules = 1000

// parameters are what each action takes: those with "!" it needs.
var parameters = map[Action]string{
	Drop: "", Delay: "time! jitter", Duplicate: "", Reorder: "behind", Corrupt: "part icrc bytes", Mark: "",
	Rate: "rate! queue", BlackHole: "above!", EndStream: "", Answer: "answer! time", Stall: "time!",
	SlowMemory: "time!", Complete: "status!", Withhold: "time!", Event: "event!", PortDown: "", PortUp: "",
	Fail: "errno!", Reject: "reason",
	FailCommand: "nvme_status", DelayCommand: "time!", LoseCompletion: "", ResetController: "", LosePath: "time!",
}

var actionNames = []string{
	"drop", "delay", "duplicate", "reorder", "corrupt", "mark", "rate", "black-hole", "end-stream", "answer", "stall",
	"slow-memory", "complete", "withhold", "event", "port-down", "port-up", "fail", "reject",
	"fail-command", "delay-command", "lose-completion", "reset-controller", "lose-path",
}

// Check returns an *Error for the first field that is wrong.
func (r *Rules) Check() error {
	if len(r.Rules) > maxRules {
		return &Error{0, "rules", fmt.Sprintf("at most %d", maxRules), fmt.Sprint(len(r.Rules))}
	}
	for i := range r.Rules {
		if e := r.Rules[i].check(); e != nil {
			e.Rule = i
			return e
		}
	}
	return nil
}

// CheckFor returns an *Error for the first rule that a device cannot follow. One of iWARP has streams of
// TCP, which repeats and orders what is lost below what the device sees; others have no streams.
func (r *Rules) CheckFor(device string, streams bool) error {
	for i := range r.Rules {
		x := &r.Rules[i]
		if d := x.Select.Device; d != "" && d != device {
			continue
		}
		e := x.onPackets()
		if streams {
			e = x.onStreams()
		}
		if e != nil {
			e.Rule = i
			return e
		}
	}
	return nil
}

func (r *Rule) onPackets() *Error {
	if r.Action == EndStream {
		return &Error{0, "action", "no end of a stream: only iWARP has streams, RoCE and InfiniBand have packets", string(r.Action)}
	}
	return nil
}

// notOnStreams are actions that iWARP does not have, with the reason.
var notOnStreams = map[Action]string{
	Drop: "TCP repeats what is lost", Duplicate: "TCP delivers each byte once", Reorder: "TCP delivers bytes in their order",
	Mark: "TCP sees the mark, the device does not", BlackHole: "TCP makes the packets, the device does not",
	Answer: "a responder refuses by ending the stream",
}

func (r *Rule) onStreams() *Error {
	s := &r.Select
	if why := notOnStreams[r.Action]; why != "" {
		return &Error{0, "action", "an action that iWARP has: " + why, string(r.Action)}
	}
	if classesOf(r)&(ofSent|ofReceived) == 0 {
		return nil
	}
	switch {
	case r.Queue != 0:
		return &Error{0, "queue", "no queue: a stream loses nothing, its sender waits", fmt.Sprint(r.Queue)}
	case len(s.PSN) > 0:
		return &Error{0, "psn", "no PSN: FPDUs of iWARP have none", fmt.Sprint(s.PSN[0])}
	case len(s.Message) > 0:
		return &Error{0, "message", "no message: iWARP has no datagrams of management", s.Message[0]}
	case len(s.Service) > 0 && !slices.Contains(s.Service, "rc"):
		return &Error{0, "service", "rc: iWARP has no other", s.Service[0]}
	}
	return nil
}

func (r *Rule) check() *Error {
	takes, ok := parameters[r.Action]
	if !ok {
		return &Error{0, "action", "one of " + strings.Join(actionNames, ", "), string(r.Action)}
	}
	for _, p := range r.given() {
		needed := strings.Contains(takes+" ", p.name+"! ")
		switch {
		case p.set && !needed && !slices.Contains(strings.Fields(takes), p.name):
			return &Error{0, p.name, fmt.Sprintf("no %s of action %s", p.name, r.Action), p.text}
		case !p.set && needed:
			return &Error{0, "action", fmt.Sprintf("%s beside it", p.name), string(r.Action)}
		case p.negative:
			return &Error{0, p.name, "nothing negative", p.text}
		}
	}
	if e := r.names(); e != nil {
		return e
	}
	for _, b := range r.Bytes {
		if b < 0 || b > 1<<16 {
			return &Error{0, "bytes", "0 to 65536", fmt.Sprint(b)}
		}
	}
	if e := r.ofTargets(); e != nil {
		return e
	}
	return r.Select.check()
}

// A parameter is a field of a rule that depends on the action.
type parameter struct {
	name, text    string
	set, negative bool
}

func (r *Rule) given() []parameter {
	number := func(name string, n int64) parameter { return parameter{name, fmt.Sprint(n), n != 0, n < 0} }
	span := func(name string, d Duration) parameter { return parameter{name, d.String(), d != 0, d < 0} }
	text := func(name, s string) parameter { return parameter{name, s, s != "", false} }
	return []parameter{
		span("time", r.Time), span("jitter", r.Jitter), number("behind", int64(r.Behind)), text("part", r.Part),
		text("icrc", r.ICRC), {"bytes", fmt.Sprint(r.Bytes), len(r.Bytes) > 0, false}, number("rate", r.Rate), number("queue", r.Queue),
		number("above", int64(r.Above)), text("answer", r.Answer), text("status", r.Status), text("event", r.Event),
		text("errno", r.Errno), number("reason", int64(r.Reason)), number("nvme_status", int64(r.NVMeStatus)),
	}
}

// names checks the fields that have a list of names.
func (r *Rule) names() *Error {
	s := &r.Select
	for _, f := range []struct {
		name   string
		values []string
	}{
		{"part", one(r.Part)}, {"icrc", one(r.ICRC)}, {"answer", one(r.Answer)}, {"status", one(r.Status)}, {"event", one(r.Event)},
		{"errno", one(r.Errno)}, {"direction", one(s.Direction)}, {"service", s.Service}, {"opcode", s.Opcode},
		{"message", s.Message}, {"completion", s.Completion}, {"status", s.Status}, {"command", s.Command},
	} {
		for _, v := range f.values {
			if allowed := Values(f.name); !slices.Contains(allowed, v) {
				return &Error{0, f.name, "one of " + strings.Join(allowed, ", "), v}
			}
		}
	}
	return nil
}

func one(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

func (s *Selector) check() *Error {
	if s.Peer != "" {
		if _, err := netip.ParseAddr(s.Peer); err != nil {
			return &Error{0, "peer", "an IP address", s.Peer}
		}
	}
	for _, p := range s.PSN {
		if p > 0xffffff {
			return &Error{0, "psn", "at most 16777215", fmt.Sprint(p)}
		}
	}
	switch {
	case s.Probability < 0 || s.Probability > 1 || s.Probability != s.Probability:
		return &Error{0, "probability", "a number above 0 and up to 1", fmt.Sprint(s.Probability)}
	case s.MinSize < 0:
		return &Error{0, "min_size", "nothing negative", fmt.Sprint(s.MinSize)}
	case s.MaxSize < 0 || s.MaxSize > 0 && s.MaxSize < s.MinSize:
		return &Error{0, "max_size", fmt.Sprintf("at least min_size, %d", s.MinSize), fmt.Sprint(s.MaxSize)}
	case s.From < 0:
		return &Error{0, "from", "nothing negative", s.From.String()}
	case s.Until < 0 || s.Until > 0 && s.Until < s.From:
		return &Error{0, "until", "at least from, " + s.From.String(), s.Until.String()}
	}
	return nil
}
