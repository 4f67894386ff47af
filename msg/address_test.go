package msg_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"softrdma/msg"
	"softrdma/rdmacm"
)

// versionAt is the offset of the protocol's version in addresses and private data.
const versionAt = len("softrdma msg")

func TestBadAddressIsNamed(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		other := bytes.Clone(b.Address())
		other[versionAt]++
		for _, c := range []struct {
			address []byte
			want    error
		}{
			{nil, msg.ErrAddress},
			{[]byte("nonsense that is long enough"), msg.ErrAddress},
			{b.Address()[:20], msg.ErrAddress},
			{append(b.Address(), 0), msg.ErrAddress},
			{other, msg.ErrVersion},
		} {
			if _, err := a.Connect(within(t), c.address); !errors.Is(err, c.want) {
				t.Errorf("%q: %v, expected %v", c.address, err, c.want)
			}
		}
	})
}

func TestConnectToAClosedWorkerIsStale(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		address := b.Address()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Connect(within(t), address); !errors.Is(err, msg.ErrStale) {
			t.Errorf("%v, expected %v", err, msg.ErrStale)
		}
	})
}

// An address whose port has another worker now is refused, and both ends know the reason.
func TestStaleAddressIsNamedAtBothEnds(t *testing.T) {
	refused := make(chan error, 4)
	c := msg.Config{Refused: func(_ netip.AddrPort, err error) { refused <- err }}
	each(t, c, func(t *testing.T, a, b *msg.Worker) {
		address := b.Address()
		address[versionAt+1] ^= 1 // the worker's number
		if _, err := a.Connect(within(t), address); !errors.Is(err, msg.ErrStale) {
			t.Errorf("client: %v, expected %v", err, msg.ErrStale)
		}
		if err := <-refused; !errors.Is(err, msg.ErrStale) {
			t.Errorf("server: %v, expected %v", err, msg.ErrStale)
		}
	})
}

// A client of another version is refused. The rejection has this worker's version, by which the
// client names the error.
func TestOtherVersionIsNamedAtBothEnds(t *testing.T) {
	refused := make(chan error, 4)
	c := msg.Config{Refused: func(_ netip.AddrPort, err error) { refused <- err }}
	each(t, c, func(t *testing.T, a, b *msg.Worker) {
		at, udp := msg.ListensAt(b.Address())
		request := bytes.Clone(b.Address()[:versionAt+17])
		request[versionAt]++
		d := rdmacm.Dialer{Device: a.Device(), RemoteUDPPort: udp, Param: rdmacm.ConnParam{PrivateData: request}}
		_, err := d.Dial(within(t), at)
		var rejected *rdmacm.RejectedError
		if !errors.As(err, &rejected) || !bytes.Equal(rejected.PrivateData[:versionAt+1], b.Address()[:versionAt+1]) {
			t.Errorf("client: %v", err)
		}
		if err := <-refused; !errors.Is(err, msg.ErrVersion) {
			t.Errorf("server: %v, expected %v", err, msg.ErrVersion)
		}
		if err := msg.Refusal(rejected, a.Address(), request); !errors.Is(err, msg.ErrVersion) {
			t.Errorf("client: %v, expected %v", err, msg.ErrVersion)
		}
	})
}
