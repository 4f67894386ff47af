package sealed

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/quic-go/quic-go"

	"softrdma/internal/link"
	"softrdma/internal/reason"
)

// The places for callers are bounded, in all and of one address. Those that are gone make room, and are reported once.
func TestLobbyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		refused := map[netip.AddrPort]int{}
		full := 0
		l := lobby{count: func(error) { full++ }, refuse: func(from netip.AddrPort, err error) {
			if f := (*link.Failure)(nil); !errors.As(err, &f) || f.Detail.Reason != reason.TLSHandshake {
				t.Errorf("%v: %v", from, err)
			}
			mu.Lock()
			defer mu.Unlock()
			refused[from]++
		}}
		call := func(host, n int) (func(error), error) {
			ctx, end := context.WithCancelCause(t.Context())
			_, err := l.enter(ctx, &quic.ClientInfo{RemoteAddr: &net.UDPAddr{IP: net.IPv4(10, 0, 0, byte(host)), Port: 1000 + n}})
			return end, err
		}
		var ends []func(error)
		for host := range maxCallers / maxHostCallers {
			for n := range maxHostCallers {
				if busy := len(ends) >= busyAt; l.busy(nil) != busy {
					t.Fatalf("%d callers: busy %v, expected %v", len(ends), !busy, busy)
				}
				end, err := call(host, n)
				if err != nil {
					t.Fatal(err)
				}
				ends = append(ends, end)
			}
			if _, err := call(host, maxHostCallers); !named(err, reason.PSPPeers) {
				t.Errorf("one more of a host: %v", err)
			}
		}
		if _, err := call(200, 0); !named(err, reason.PSPPeers) {
			t.Errorf("one more of another host: %v", err)
		}
		if full != maxCallers/maxHostCallers+1 {
			t.Errorf("%d without a place were counted", full)
		}
		ends[3](errors.New("silent"))
		synctest.Wait()
		if len(refused) != 1 {
			t.Errorf("%v were reported", refused)
		}
		end, err := call(200, 0)
		if err != nil {
			t.Error(err)
		}
		for _, end := range append(ends, end) {
			end(errors.New("silent"))
		}
		synctest.Wait()
		if len(refused) != maxCallers+1 || l.all != 0 || len(l.hosts) != 0 {
			t.Errorf("%d callers were reported, %d and %v are left", len(refused), l.all, l.hosts)
		}
	})
}

// What a caller writes into the end of its connection is quoted and truncated.
func TestAttackTextOfACallerIsQuoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []error
		l := lobby{refuse: func(_ netip.AddrPort, err error) { told = append(told, err) }}
		text := "\x1b[2J\nsoftrdma: all is well" + strings.Repeat("!", 1000)
		for _, why := range []error{
			&quic.TransportError{Remote: true, ErrorCode: quic.NoError, ErrorMessage: text},
			&quic.ApplicationError{Remote: true, ErrorMessage: text},
		} {
			ctx, end := context.WithCancelCause(t.Context())
			if _, err := l.enter(ctx, &quic.ClientInfo{RemoteAddr: &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1000}}); err != nil {
				t.Fatal(err)
			}
			end(why)
			synctest.Wait()
		}
		if len(told) != 2 {
			t.Fatalf("%d were reported", len(told))
		}
		for _, err := range told {
			if s := err.Error(); strings.ContainsAny(s, "\x1b\n") || len(s) > 300 || !strings.Contains(s, "all is well") {
				t.Errorf("%q", s)
			}
		}
	})
}
