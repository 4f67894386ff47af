package rdmacm

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"softrdma/verbs"
)

func secret(t *testing.T, text string) *tls.Config {
	t.Helper()
	cfg, err := verbs.SharedSecret([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// reach returns the error of a client that connects to the server, with or without TLS, from
// clientIP.
func reach(security *tls.Config) Dialer {
	return Dialer{
		Protocol: verbs.IWARP, TLS: security, Local: netip.AddrPortFrom(netip.MustParseAddr(clientIP), 0),
		QP: verbs.QPConfig{MaxInline: 64},
	}
}

func TestTLSWithoutADeviceByHand(t *testing.T) {
	leavesNothing(t)
	both := secret(t, "what both ends know of each other")
	l, err := Listen(serverIP+":0", ListenConfig{Protocol: verbs.IWARP, TLS: both, QP: verbs.QPConfig{MaxInline: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, l)
	server := accepted(t, l)
	d := reach(both)
	c, err := d.Dial(within(t), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, c)
	s := server()
	defer closed(t, s)
	talk(t, c, s, "for nobody else")

	// An address that is in use with TLS cannot be used without TLS, nor with another
	// configuration.
	for _, other := range []*tls.Config{nil, secret(t, "what both ends know of each other")} {
		d := reach(other)
		var se *SecurityError
		if _, err := d.Dial(within(t), l.Addr().String()); !errors.As(err, &se) || !se.TLS || se.Device != "iwarp:"+clientIP {
			t.Errorf("dial with another configuration: %v", err)
		}
	}
}

func TestTLSIsNotLeftOutByEitherEnd(t *testing.T) {
	for name, c := range map[string]struct {
		listens, dials *tls.Config
		want           string
	}{
		"the dialer has none":   {secret(t, "what one end knows alone"), nil, "TLS"},
		"the listener has none": {nil, secret(t, "what one end knows alone"), "TLS"},
		"another secret":        {secret(t, "what one end knows alone"), secret(t, "what the other end knows"), "not trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			l, err := Listen(serverIP+":0", ListenConfig{Protocol: verbs.IWARP, TLS: c.listens})
			if err != nil {
				t.Fatal(err)
			}
			defer closed(t, l)
			d := reach(c.dials)
			if _, err := d.Dial(within(t), l.Addr().String()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("dial: %v", err)
			}
		})
	}
}

// An unused device with TLS is closed for a device without, and vice versa, before its linger
// time is over.
func TestTLSIdleDeviceMakesRoom(t *testing.T) {
	leavesNothing(t)
	one := secret(t, "a secret of one connection")
	for _, security := range []*tls.Config{nil, one, nil, secret(t, "a secret of another connection"), one} {
		l, err := Listen(serverIP+":0", ListenConfig{Protocol: verbs.IWARP, TLS: security})
		if err != nil {
			t.Fatal(err)
		}
		closed(t, l)
	}
}

// A device that the program opened is used as it was opened.
func TestTLSOfADeviceByHand(t *testing.T) {
	leavesNothing(t)
	own := secret(t, "a secret of the program's own")
	dev, err := verbs.Open("iwarp:"+serverIP, verbs.Config{TLS: own})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, dev)
	for _, security := range []*tls.Config{nil, own} {
		l, err := Listen(serverIP+":0", ListenConfig{Protocol: verbs.IWARP, TLS: security})
		if err != nil {
			t.Fatal(err)
		}
		closed(t, l)
	}
	var se *SecurityError
	if _, err := Listen(serverIP+":0", ListenConfig{Device: dev, TLS: secret(t, "a secret of somebody else")}); !errors.As(err, &se) {
		t.Errorf("another secret than the device's: %v", err)
	}
}

func TestTLSOfOtherProtocolsRefused(t *testing.T) {
	leavesNothing(t)
	cfg := secret(t, "RoCE v1 has none of it")
	if _, err := Listen(serverIP+":0", ListenConfig{Protocol: verbs.RoCEv1, TLS: cfg}); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "iWARP") {
		t.Errorf("listener: %v", err)
	}
	if _, err := Dial(within(t), serverIP+":7", Dialer{Protocol: verbs.RoCEv1, TLS: cfg}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("dialer: %v", err)
	}
}
