package trunk

import (
	"bytes"
	"testing"
	"time"

	"softrdma/internal/reason"
)

// calling returns a listener, and a Hello of a trunk that calls it.
func calling(secret, name string) (*Listener, *Trunk, []byte) {
	l := &Listener{Use: Program, Name: "fab", Secret: []byte("x"), Key: []byte("key")}
	t := New(0, Config{Use: Program, Self: Peer{Process: 1, Fabric: name, Port: "program"}, Secret: []byte(secret), Supported: supported,
		Random: func() uint64 { return 77 }, Port: &jack{fuzzed: true}})
	return l, t, bytes.Clone(t.Next(0))
}

// A listener keeps nothing of a caller until that has named what it was answered at its address.
func TestListenerHearsOnlyWhoGetsItsAnswers(t *testing.T) {
	l, caller, first := calling("x", "fab")
	call, answer, why := l.Receive(0, []byte("here"), first)
	if call != nil || why.Reason != reason.None || len(answer) == 0 || len(answer) > len(first) {
		t.Fatalf("%+v, answer of %d bytes to %d, %v", call, len(answer), len(first), why)
	}
	if d := caller.Receive(0, answer); d.Reason != reason.None {
		t.Fatal(d)
	}
	second := bytes.Clone(caller.Next(0))
	for _, x := range []struct {
		from string
		now  time.Duration
		ok   bool
	}{{"here", 0, true}, {"here", cookieTime, true}, {"here", 2 * cookieTime, false}, {"there", 0, false}} {
		call, answer, why := l.Receive(x.now, []byte(x.from), second)
		if x.ok != (call != nil) || answer != nil || x.ok != (why.Reason == reason.None) {
			t.Errorf("from %s at %v: %+v, %v", x.from, x.now, call, why)
		}
		if x.ok && (call.Far != 77 || call.Who.Port != "program") {
			t.Errorf("%+v", call)
		}
	}
	id := caller.session.peer
	own := New(0, Config{Use: Program, Self: Peer{Fabric: "fab"}, Secret: l.Secret, Supported: supported, Random: func() uint64 { return id }, Port: &jack{fuzzed: true}})
	if d := own.Receive(0, second); d.Reason != reason.None || own.session == nil {
		t.Errorf("the session does not begin: %v", d)
	}
}

func TestListenerSaysWhyItRefuses(t *testing.T) {
	for _, x := range []struct {
		name, secret, fabric string
		change               func(b []byte)
		want                 reason.Reason
	}{
		{"another secret", "y", "fab", func([]byte) {}, reason.FabricTrunkSecret},
		{"another version", "x", "fab", func(b []byte) { b[0]++ }, reason.FabricTrunkVersion},
		{"another name", "x", "other", func([]byte) {}, reason.FabricAbsent},
	} {
		l, caller, first := calling(x.secret, x.fabric)
		x.change(first)
		call, answer, why := l.Receive(0, nil, first)
		if call != nil || why.Reason != x.want || len(answer) > len(first) {
			t.Errorf("%s: %+v, %v", x.name, call, why)
		}
		if d, ok := caller.Refusal(answer); !ok || d.Reason != x.want {
			t.Errorf("%s: the caller reads %v, %v", x.name, d, ok)
		}
		caller.own++
		if d, ok := caller.Refusal(answer); ok {
			t.Errorf("%s: a refusal for another one was taken: %v", x.name, d)
		}
	}
}

// Ends of different use refuse each other.
func TestTrunkRefusesProgramsAndListenerIgnoresTrunks(t *testing.T) {
	l, _, first := calling("x", "fab")
	w := newWorld(t, 1)
	if d := w.jacks[0].trunk.Receive(0, first); d.Reason != reason.FabricTrunkNetwork {
		t.Errorf("a trunk: %v", d)
	}
	if call, answer, why := l.Receive(0, nil, w.jacks[0].trunk.Next(0)); call != nil || answer != nil || why.Reason != reason.FabricTrunkSession {
		t.Errorf("a listener: %+v, %x, %v", call, answer, why)
	}
}

// FuzzListener gives a listener any packets. Without the secret it opens no session, and no answer is
// longer than the question.
func FuzzListener(f *testing.F) {
	l, _, first := calling("x", "fab")
	f.Add(first)
	_, answer, _ := l.Receive(0, nil, first)
	f.Add(answer)
	f.Add(l.Refuse(first, reason.Detail{Reason: reason.FabricAbsent}))
	_, _, wrong := calling("y", "fab")
	f.Add(wrong)
	f.Fuzz(func(t *testing.T, b []byte) {
		call, answer, why := l.Receive(0, nil, b)
		if call != nil || len(answer) > len(b) || answer == nil && why.Reason == reason.None {
			t.Errorf("%+v, %x, %v", call, answer, why)
		}
		_, caller, _ := calling("x", "fab")
		caller.Refusal(b)
		if answer != nil {
			if again, _, _ := l.Receive(0, nil, answer); again != nil {
				t.Error("a listener hears another one")
			}
		}
	})
}
