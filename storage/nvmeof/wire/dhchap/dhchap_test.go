package dhchap

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"softrdma/storage/nvmeof/wire/format"
)

// TestPrimesAreThoseOfTheStandard compares with the last bytes that RFC 7919 prints, and checks that p and
// (p-1)/2 are primes for the smaller groups.
func TestPrimesAreThoseOfTheStandard(t *testing.T) {
	const begin = "ffffffffffffffffadf85458a2bb4a9aafdc5620273d3cf1"
	for g, end := range map[Group]string{
		FFDHE2048: "886b423861285c97ffffffffffffffff", FFDHE3072: "25e41d2b66c62e37ffffffffffffffff", FFDHE4096: "c68a007e5e655f6affffffffffffffff",
		FFDHE6144: "a41d570d7938dad4a40e329cd0e40e65ffffffffffffffff", FFDHE8192: "d68c8bb7c5c6424cffffffffffffffff",
	} {
		p := g.Prime()
		text := hex.EncodeToString(p.Bytes())
		if len(text) != 2*g.Len() || !strings.HasPrefix(text, begin) || !strings.HasSuffix(text, end) {
			t.Errorf("%v: found %s…%s with %d bytes", g, text[:len(begin)], text[len(text)-len(end):], len(text)/2)
		}
	}
	if p := FFDHE2048.Prime(); !p.ProbablyPrime(1) {
		t.Error("ffdhe2048 is not prime")
	}
}

func TestMessagesSurviveRoundTrip(t *testing.T) {
	check := func(name string, want, got any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(want, got) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	n := Negotiate{Transaction: 0x1234, SecureChannel: 1, Hashes: []Hash{SHA512, SHA256}, Groups: []Group{FFDHE8192, NoGroup}}
	gotN, err := ParseNegotiate(n.Append(nil))
	check("negotiate", n, gotN, err)
	h := bytes.Repeat([]byte{7}, SHA384.Len())
	c := Challenge{Transaction: 2, Hash: SHA384, Group: FFDHE2048, Sequence: 3, Challenge: h, Public: make([]byte, FFDHE2048.Len())}
	gotC, err := ParseChallenge(c.Append(nil))
	check("challenge", c, gotC, err)
	r := Reply{Transaction: 2, Sequence: 9, Response: h, Challenge: h, Public: []byte{1, 2}}
	gotR, err := ParseReply(r.Append(nil))
	check("reply", r, gotR, err)
	s := Success1{Transaction: 2, Response: h}
	gotS, err := ParseSuccess1(s.Append(nil, SHA384))
	check("success", s, gotS, err)
	s.Response = nil
	gotS, err = ParseSuccess1(s.Append(nil, SHA384))
	check("success without a response", s, gotS, err)
	transaction, err := ParseSuccess2(AppendSuccess2(nil, 5))
	check("success of the host", uint16(5), transaction, err)
	f := Failure{Transaction: 2, FromHost: true, Why: GroupUnusable}
	gotF, err := ParseFailure(f.Append(nil))
	check("failure", f, gotF, err)
	send := Command(true, 80)
	length, ok := CommandFields(&send)
	check("command", uint32(80), length, nil)
	if !ok || !send.ToController() {
		t.Errorf("command %+v", send)
	}
	if receive := Command(false, 80); !receive.ToHost() {
		t.Errorf("command %+v", receive)
	}
}

func TestWrongMessagesAreNamed(t *testing.T) {
	n := Negotiate{Hashes: []Hash{SHA256}, Groups: []Group{NoGroup}}
	long, foreign := n.Append(nil), n.Append(nil)
	long[8+2], foreign[8] = 31, 9
	c := Challenge{Hash: SHA256, Challenge: make([]byte, 32)}
	unknown := c.Append(nil)
	unknown[8] = 4
	for name, err := range map[string]error{
		"too many hashes": second(ParseNegotiate(long)), "another protocol": second(ParseNegotiate(foreign)), "another message": second(ParseChallenge(long)),
		"short": second(ParseNegotiate(long[:71])), "unknown hash": second(ParseChallenge(unknown)), "short challenge": second(ParseChallenge(c.Append(nil)[:47])),
		"short reply": second(ParseReply([]byte{1, 2, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0})),
	} {
		if e := (*format.Error)(nil); !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// FuzzMessages checks that no parser fails otherwise than by an error, and that what it accepts survives.
func FuzzMessages(f *testing.F) {
	n := Negotiate{Hashes: []Hash{SHA256}, Groups: []Group{FFDHE2048}}
	f.Add(n.Append(nil))
	c := Challenge{Hash: SHA256, Challenge: make([]byte, 32), Public: make([]byte, 4)}
	f.Add(c.Append(nil))
	r := Reply{Response: make([]byte, 32), Challenge: make([]byte, 32)}
	f.Add(r.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(again any, want any, err error) {
			if err != nil || !reflect.DeepEqual(again, want) {
				t.Errorf("got %+v, want %+v, %v", again, want, err)
			}
		}
		if n, err := ParseNegotiate(b); err == nil {
			again, err := ParseNegotiate(n.Append(nil))
			same(again, n, err)
		}
		if c, err := ParseChallenge(b); err == nil {
			again, err := ParseChallenge(c.Append(nil))
			same(again, c, err)
		}
		if r, err := ParseReply(b); err == nil {
			again, err := ParseReply(r.Append(nil))
			same(again, r, err)
		}
		_, _ = ParseSuccess1(b)
		_, _ = ParseSuccess2(b)
		_, _ = ParseFailure(b)
	})
}
