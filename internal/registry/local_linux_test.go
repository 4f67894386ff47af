package registry

import (
	"crypto/tls"
	"net/netip"
	"testing"

	"softrdma/internal/cma"
	"softrdma/internal/cmid"
)

// Clients of this machine share a device only with the same TLS.
func TestClientsOfThisMachineShareNoDeviceOfOtherTLS(t *testing.T) {
	var r Registry
	c := &connections{r: &r, open: func(at netip.AddrPort, security *tls.Config) (Handle, error) {
		d := &device{at}
		r.Add(&Entry{Handle: d, TLS: security})
		return d, nil
	}}
	to := netip.MustParseAddr("127.0.0.1")
	security := new(tls.Config)
	for range 2 {
		for _, want := range []*tls.Config{nil, security} {
			l, err := c.Reach(to, cma.DeviceOptions{Protocol: cmid.RoCE, TLS: want})
			if err != nil {
				t.Fatal(err)
			}
			if got := l.(*Lease).e.TLS; got != want {
				t.Errorf("a device with TLS %p, expected %p", got, want)
			}
		}
	}
	if n := len(r.open); n != 2 {
		t.Errorf("%d devices, expected 2", n)
	}
}
