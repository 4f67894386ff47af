package auth

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/dhchap"
)

// example is the key of NVM Express's example of a secret.
const example = "ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:"

var names = Names{Host: "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001", Subsystem: "nqn.2024-01.org.example:disk"}

func parse(t *testing.T, text string) Secret {
	t.Helper()
	s, err := ParseSecret(text)
	if err != nil {
		t.Fatal(text, err)
	}
	return s
}

// TestSecretsOfOtherToolsAreRead: the second is of nvme-cli's tests.
func TestSecretsOfOtherToolsAreRead(t *testing.T) {
	for _, text := range []string{
		"DHHC-1:01:" + example, "DHHC-1:00:9wCYVQqDvADjGIZo6q/v2SfmXZqqkNa9TcvYu97Ly3Q/gajh:",
		"DHHC-1:00:ojmm6ISA2DBpZEldEJqJvA1/cAl1wDmeolS0fCIn2qZpK0b7gpx3qu76yHpjlOOXNyjqf0oFYCWxUqkXGN2xEBOVxoA=:",
	} {
		if s := parse(t, text); s.IsZero() || strings.Contains(fmt.Sprintf("%v %+v %#v", s, Secrets{Host: s}, s), s.key) {
			t.Errorf("%s became %v", text, s)
		}
	}
	for text, want := range map[string]string{
		"DHHC-2:00:" + example: "expected the form DHHC-1:HH:BASE64: of", "DHHC-1:00:" + strings.TrimSuffix(example, ":"): "expected the form DHHC-1:HH:BASE64: of",
		"DHHC-1:04:" + example: "expected hash 00, 01, 02 or 03", "DHHC-1:00:!:": "expected base64", "DHHC-1:00:AAAA:": "expected a key of 32, 48 or 64 bytes, found 0",
		"DHHC-1:00:ja6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:": "checksum is wrong", "": "expected the form DHHC-1:HH:BASE64: of",
		"DHHC-1:" + example + "00:": "expected hash 00, 01, 02 or 03", // the parts in the wrong order
	} {
		if _, err := ParseSecret(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "6zGod") {
			t.Errorf("%q: expected %q, found %v", text, want, err)
		}
	}
}

// TestResponsesAreThoseOfTheStandard compares with what Python's hmac and hashlib give for the formula of base
// 2.0, 8.13.5.4, with the key of the example.
func TestResponsesAreThoseOfTheStandard(t *testing.T) {
	challenge := make([]byte, 48)
	for i := range challenge {
		challenge[i] = byte(i)
	}
	plain := response{hash: dhchap.SHA256, challenge: challenge[:32], sequence: 0x01020304, transaction: 0x1122}
	small := response{hash: dhchap.SHA256, challenge: challenge[:32], sequence: 7, transaction: 8}
	shared := response{hash: dhchap.SHA384, challenge: challenge, sequence: 7, transaction: 8, session: make([]byte, 256)}
	for _, x := range []struct {
		name string
		got  []byte
		want string
	}{
		{"host, plain key", plain.host(parse(t, "DHHC-1:00:"+example), names), "bf6bf94ad761eb99d5479e39c380ed02113c70c13c817e602ea40d6ad2e2c8c4"},
		{"controller, key bound with SHA-512", small.controller(parse(t, "DHHC-1:03:"+example), names), "40ea5a2858ae1d35d0475c38c5a0ffae47cd1a644119cdf667d2c8941b7f0dfc"},
		{"host, with a session key", shared.host(parse(t, "DHHC-1:02:"+example), names), "55748b75d7cfe523fd3326f9c29fdb2e50940890b4155062ef11c7067046ef85657462caf37d58af50e4dd396dce7a38"},
	} {
		if got := hex.EncodeToString(x.got); got != x.want {
			t.Errorf("%s: got %s, want %s", x.name, got, x.want)
		}
	}
}

// run connects a host to a controller. Change may change a message on its way.
func run(c *Controller, s Secrets, change func(k dhchap.Kind, b []byte)) (host, controller error) {
	host = Authenticate(names, s, func(cmd capsule.Command, data []byte) error {
		length, ok := dhchap.CommandFields(&cmd)
		if !ok || int(length) != len(data) {
			return fmt.Errorf("the command's length is %d, that of the data %d", length, len(data))
		}
		k, _, _ := dhchap.ParseKind(data)
		if cmd.ToController() {
			change(k, data)
			c.Send(data)
			return nil
		}
		ok, err := c.Receive(data)
		if !ok {
			return errors.New("the controller has no message")
		}
		if controller == nil {
			controller = err
		}
		k, _, _ = dhchap.ParseKind(data)
		change(k, data)
		return nil
	})
	return host, controller
}

func TestBothSidesAreAuthenticated(t *testing.T) {
	unchanged := func(dhchap.Kind, []byte) {}
	host, other := parse(t, "DHHC-1:01:"+example), parse(t, "DHHC-1:00:9wCYVQqDvADjGIZo6q/v2SfmXZqqkNa9TcvYu97Ly3Q/gajh:")
	for _, x := range []struct {
		name             string
		host, controller Secrets
		done             bool
		why              dhchap.Why // that the host learns, 0 if it succeeds
	}{
		{"host only", Secrets{Host: host}, Secrets{Host: host}, true, 0},
		{"host only, of a controller with a secret", Secrets{Host: host}, Secrets{Host: host, Controller: other}, true, 0},
		{"both", Secrets{host, other}, Secrets{host, other}, true, 0},
		{"wrong secret of the host", Secrets{Host: other}, Secrets{Host: host}, false, dhchap.Failed},
		{"wrong secret of the controller", Secrets{host, host}, Secrets{host, other}, false, dhchap.Failed},
		{"controller without a secret", Secrets{host, other}, Secrets{Host: host}, false, dhchap.Failed},
	} {
		c := NewController(names, x.controller)
		if c.Done() {
			t.Fatal("authenticated without a message")
		}
		err, _ := run(c, x.host, unchanged)
		var failed *Error
		if errors.As(err, &failed) && failed.Why != x.why || (err == nil) != (x.why == 0) || c.Done() != x.done {
			t.Errorf("%s: the host found %v, the controller is done: %v", x.name, err, c.Done())
		}
		if err, _ := run(c, x.controller, unchanged); x.done && (err != nil || !c.Done()) {
			t.Errorf("%s: authentication again: %v", x.name, err)
		}
	}
}

// TestEachHashAndGroup: a host that offers one of each.
func TestEachHashAndGroup(t *testing.T) {
	secret := parse(t, "DHHC-1:00:"+example)
	for _, h := range hashes {
		for _, g := range groups {
			if h != dhchap.SHA512 && g > dhchap.FFDHE2048 {
				continue // arithmetic of large groups takes long, and no hash depends on the group
			}
			c := NewController(names, Secrets{secret, secret})
			err, why := run(c, Secrets{secret, secret}, func(k dhchap.Kind, b []byte) {
				if k == dhchap.KindNegotiate && b[7] == 1 {
					n, err := dhchap.ParseNegotiate(b)
					if err != nil {
						t.Fatal(err)
					}
					n.Hashes, n.Groups = []dhchap.Hash{h}, []dhchap.Group{g}
					copy(b, n.Append(nil))
				}
			})
			if err != nil || why != nil || !c.Done() || c.hash != h || c.pair.group != g {
				t.Errorf("%v, %v: %v, %v", h, g, err, why)
			}
		}
	}
}

// TestWrongMessagesFail: whatever byte an attacker changes in the responses, or message it leaves out, the
// host is not authenticated.
func TestWrongMessagesFail(t *testing.T) {
	secret := parse(t, "DHHC-1:00:"+example)
	both := Secrets{secret, secret}
	for _, x := range []struct {
		name string
		kind dhchap.Kind
		at   int
		to   byte
		why  dhchap.Why
	}{
		{"no hash in common", dhchap.KindNegotiate, 8 + 4, 9, 0}, // SHA-384 is left
		{"secure channel", dhchap.KindNegotiate, 6, 1, dhchap.ChannelUnusable},
		{"another protocol", dhchap.KindNegotiate, 8, 7, dhchap.PayloadWrong},
		{"response", dhchap.KindReply, 16, 0, dhchap.Failed},
		{"response length", dhchap.KindReply, 6, 31, dhchap.PayloadWrong},
		{"public value length", dhchap.KindReply, 10, 9, dhchap.PayloadWrong},
		{"transaction of the reply", dhchap.KindReply, 4, 0, dhchap.MessageWrong},
		{"challenge", dhchap.KindChallenge, 20, 0, dhchap.Failed},
		{"sequence", dhchap.KindChallenge, 12, 0, dhchap.Failed},
		{"group of the challenge", dhchap.KindChallenge, 9, 77, dhchap.GroupUnusable},
		{"response of the controller", dhchap.KindSuccess1, 16, 0, dhchap.Failed},
	} {
		c := NewController(names, both)
		err, _ := run(c, both, func(k dhchap.Kind, b []byte) {
			if k != x.kind {
				return
			}
			if x.to != 0 {
				b[x.at] = x.to
			} else {
				b[x.at] ^= 0x5a
			}
		})
		var failed *Error
		if x.why == 0 && err != nil || x.why != 0 && (!errors.As(err, &failed) || failed.Why != x.why) || c.Done() != (x.why == 0) {
			t.Errorf("%s: expected %v, found %v, done %v", x.name, x.why, err, c.Done())
		}
	}
	// A reply without a negotiation, and a success without a reply.
	for _, b := range [][]byte{
		(&dhchap.Reply{Response: make([]byte, 32)}).Append(nil), dhchap.AppendSuccess2(nil, 0), dhchap.Failure{FromHost: true}.Append(nil), {1}, nil,
	} {
		c := NewController(names, both)
		c.Send(b)
		answer := make([]byte, dhchap.MaxLen)
		ok, err := c.Receive(answer)
		if f, e := dhchap.ParseFailure(answer); !ok || err == nil || e != nil || f.FromHost || c.Done() {
			t.Errorf("%x: answered %v, %v, %+v, %v", b, ok, err, f, e)
		}
	}
	// Public values outside of the group.
	p := newPair(dhchap.FFDHE2048)
	prime := dhchap.FFDHE2048.Prime()
	for _, b := range [][]byte{
		nil, make([]byte, 256), append(make([]byte, 255), 1), prime.Bytes(), append([]byte{0}, p.public...),
	} {
		if _, err := p.session(b); err == nil {
			t.Errorf("the public value %x was taken", b)
		}
	}
}

// TestNegotiationsAreLimited: each makes the controller compute with large numbers.
func TestNegotiationsAreLimited(t *testing.T) {
	secret := parse(t, "DHHC-1:00:"+example)
	c := NewController(names, Secrets{Host: secret})
	b := make([]byte, dhchap.MaxLen)
	n := dhchap.Negotiate{Hashes: hashes, Groups: groups}
	challenges := 0
	for range 2 * maxNegotiations {
		c.Send(n.Append(nil))
		ok, err := c.Receive(b)
		if !ok {
			t.Fatal("no answer")
		}
		if err == nil {
			challenges++
		}
	}
	if challenges != maxNegotiations {
		t.Errorf("expected %d challenges, found %d", maxNegotiations, challenges)
	}
	c = NewController(names, Secrets{Host: secret})
	for range 2 * maxNegotiations {
		if err, _ := run(c, Secrets{Host: secret}, func(dhchap.Kind, []byte) {}); err != nil {
			t.Fatalf("a host that authenticates again: %v", err)
		}
	}
}

// FuzzController checks that no messages break the controller's side or authenticate a host.
func FuzzController(f *testing.F) {
	n := dhchap.Negotiate{Hashes: hashes, Groups: []dhchap.Group{dhchap.NoGroup}}
	f.Add(n.Append(nil), (&dhchap.Reply{Response: make([]byte, 32)}).Append(nil))
	f.Add(n.Append(nil), dhchap.AppendSuccess2(nil, 0))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s, err := ParseSecret("DHHC-1:00:" + example)
		if err != nil {
			t.Fatal(err)
		}
		c := NewController(names, Secrets{s, s})
		b := make([]byte, dhchap.MaxLen)
		for _, m := range [][]byte{first, second, second} {
			c.Send(m)
			_, _ = c.Receive(b)
		}
		if c.Done() {
			t.Errorf("%x and %x have authenticated a host", first, second)
		}
	})
}

// FuzzHost checks that no messages break the host's side, or authenticate a controller.
func FuzzHost(f *testing.F) {
	challenge := dhchap.Challenge{Hash: dhchap.SHA256, Group: dhchap.NoGroup, Sequence: 1, Challenge: make([]byte, 32)}
	f.Add(challenge.Append(nil), (&dhchap.Success1{Response: make([]byte, 32)}).Append(nil, dhchap.SHA256))
	challenge.Group, challenge.Public = dhchap.FFDHE2048, make([]byte, dhchap.FFDHE2048.Len())
	f.Add(challenge.Append(nil), dhchap.Failure{Why: dhchap.Failed}.Append(nil))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s, err := ParseSecret("DHHC-1:00:" + example)
		if err != nil {
			t.Fatal(err)
		}
		messages := [][]byte{first, second}
		var transaction [2]byte // of the host, which the messages answer
		err = Authenticate(names, Secrets{s, s}, func(cmd capsule.Command, data []byte) error {
			if cmd.ToController() {
				copy(transaction[:], data[4:])
				return nil
			}
			copy(data, messages[0])
			copy(data[4:6], transaction[:])
			messages = messages[1:]
			return nil
		})
		if err == nil {
			t.Errorf("%x and %x have authenticated a controller", first, second)
		}
	})
}

// TestDoneDoesNotWaitForComputations: a target asks with the lock of all its queues, and hosts that are not
// authenticated choose how long the answer to their message takes.
func TestDoneDoesNotWaitForComputations(t *testing.T) {
	c := NewController(names, Secrets{})
	c.mu.Lock() // as Send does meanwhile
	defer c.mu.Unlock()
	said := make(chan bool, 1)
	go func() { said <- c.Done() }()
	select {
	case done := <-said:
		if done {
			t.Error("a host that has said nothing is authenticated")
		}
	case <-time.After(5 * time.Second):
		t.Error("Done waits for a message that is being answered")
	}
}
