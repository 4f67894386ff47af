package rsocket

import "testing"

// Each row is the history of one side. The messages it sends and the directions
// that are open afterwards match rshutdown, rclose and rs_poll_cq of librdmacm.
func TestLifeFollowsRsockets(t *testing.T) {
	const none = Message(0xffffffff)
	shutdown, disconnect := NewMessage(OpControl, ControlShutdown), NewMessage(OpControl, ControlDisconnect)
	write := func(l *Life) (Message, bool) { return l.CloseWrite() }
	read := func(l *Life) (Message, bool) { return l.CloseRead() }
	both := func(l *Life) (Message, bool) { return l.Close() }
	hears := func(data uint32) func(*Life) (Message, bool) {
		return func(l *Life) (Message, bool) { l.Control(data); return 0, false }
	}
	type steps []func(*Life) (Message, bool)
	for name, c := range map[string]struct {
		steps                    steps
		last                     Message // the message of the last step
		readable, writable, gone bool
	}{
		"nothing":                         {nil, none, true, true, false},
		"shuts writing":                   {steps{write}, shutdown, true, false, false},
		"shuts writing twice":             {steps{write, write}, none, true, false, false},
		"shuts reading":                   {steps{read}, none, false, true, false},
		"shuts reading, then writing":     {steps{read, write}, disconnect, false, false, false},
		"shuts writing, then reading":     {steps{write, read}, disconnect, false, false, false},
		"closes":                          {steps{both}, disconnect, false, false, false},
		"shuts writing and closes":        {steps{write, both}, disconnect, false, false, false},
		"shuts both and closes":           {steps{read, write, both}, none, false, false, false},
		"peer shuts writing":              {steps{hears(ControlShutdown)}, none, false, true, false},
		"peer shuts, then we":             {steps{hears(ControlShutdown), write}, disconnect, false, false, false},
		"we shut, then the peer":          {steps{write, hears(ControlShutdown)}, none, false, false, true},
		"we shut, peer shuts, we close":   {steps{write, hears(ControlShutdown), both}, none, false, false, true},
		"peer closes":                     {steps{hears(ControlDisconnect)}, none, false, false, true},
		"peer closes, then we":            {steps{hears(ControlDisconnect), both}, none, false, false, true},
		"peer closes while we have shut":  {steps{write, hears(ControlDisconnect)}, none, false, false, true},
		"peer says that it lives":         {steps{hears(ControlKeepAlive)}, none, true, true, false},
		"peer says what is not known":     {steps{hears(77)}, none, true, true, false},
		"peer shuts writing, then closes": {steps{hears(ControlShutdown), hears(ControlDisconnect)}, none, false, false, true},
	} {
		var l Life
		last := none
		for _, f := range c.steps {
			if m, send := f(&l); send {
				last = m
			} else {
				last = none
			}
		}
		if last != c.last || l.Readable() != c.readable || l.Writable() != c.writable || l.Gone() != c.gone {
			t.Errorf("%s: sends %v, readable %v, writable %v, gone %v; expected %v %v %v %v",
				name, last, l.Readable(), l.Writable(), l.Gone(), c.last, c.readable, c.writable, c.gone)
		}
	}
}

// The stream has ended only if the peer said so. Otherwise it was cut.
func TestLifeDistinguishesEndFromCut(t *testing.T) {
	var cut, shut, closed Life
	cut.End()
	shut.Control(ControlShutdown)
	shut.End()
	closed.Control(ControlDisconnect)
	var own Life
	own.Close()
	own.End()
	for name, c := range map[string]struct {
		l           *Life
		ended, left bool
	}{
		"cut": {&cut, false, false}, "peer shuts writing": {&shut, true, false}, "peer closes": {&closed, true, true}, "this side closes": {&own, false, false},
	} {
		if !c.l.Gone() || c.l.Ended() != c.ended || c.l.Left() != c.left {
			t.Errorf("%s: gone %v, ended %v, left %v", name, c.l.Gone(), c.l.Ended(), c.l.Left())
		}
	}
}
