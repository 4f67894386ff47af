package sealed

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/link"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/wire/psp"
)

// A met is a meeting at which all have met.
type met struct{}

func (met) Introduce(netip.AddrPort, bool) error { return nil }

// A doubter is a link that does not vouch for packets, so that the adapter checks their ICRC.
type doubter struct{ *Link }

func (d doubter) Receive(rx *link.Rx) (bool, error) {
	ok, err := d.Link.Receive(rx)
	rx.Intact = false
	return ok, err
}

// hosts makes two devices that encrypt on a simulated network. The second one checks each ICRC.
func hosts(t *testing.T, n *simnet.Network, lc simnet.LinkConfig) (hs [2]*rig.Host, es [2]*Endpoint) {
	return hostsOver(t, n, lc, func(_ int, on link.Datagrams) link.Datagrams { return on }, func(i int, l *Link) link.Datagrams {
		if i == 1 {
			return doubter{l}
		}
		return l
	})
}

// hostsOver makes two devices that encrypt on a simulated network. Below is what their links seal the packets of, and above
// what the devices have in place of the links.
func hostsOver(
	t *testing.T, n *simnet.Network, lc simnet.LinkConfig, below func(int, link.Datagrams) link.Datagrams, above func(int, *Link) link.Datagrams,
) (hs [2]*rig.Host, es [2]*Endpoint) {
	t.Helper()
	lc.AnyICRC = true // the network sees none
	for i, at := range addrs {
		on := n.Attach(netip.AddrPortFrom(at.Addr(), psp.Port), lc)
		es[i] = NewEndpoint(at, psp.Port)
		h := &rig.Host{Net: n, Link: on}
		links := []link.Datagrams{above(i, New(below(i, on), es[i], met{}))}
		h.Dev = adapter.Open(adapter.Config{
			Networks: rocev2.Networks(links), Clock: n.Clock, Manual: true, Random: n.Random(uint64(i) + 100).Uint32,
		})
		var err error
		if h.PD, err = h.Dev.AllocPD(); err != nil {
			t.Fatal(err)
		}
		n.Drive(h.Dev)
		hs[i] = h
	}
	return hs, es
}

// Messages arrive complete, once and in order, while the network loses, repeats, delays and changes packets, and
// keys change all the time.
func TestMessagesArriveWhileKeysChange(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			n := simnet.New(seed)
			f := simnet.Faults{Loss: .01, Duplicate: .02, Corrupt: .01, Reorder: .02, Delay: 5 * time.Microsecond, Jitter: time.Microsecond}
			hs, es := hosts(t, n, simnet.LinkConfig{Egress: f, NoCoalescing: seed%2 == 1})
			es[1].limit = 50_000
			x, y := join(t, es[0], es[1], addrs[0], addrs[1], always)
			var cqs [2]*adapter.CQ
			var qps [2]*adapter.QP
			for i, h := range hs {
				var err error
				if cqs[i], err = h.Dev.CreateCQ(64, nil); err != nil {
					t.Fatal(err)
				}
				if qps[i], err = h.PD.CreateQP(&adapter.QPConfig{
					Type: qp.RC, SendCQ: cqs[i], RecvCQ: cqs[i], SendDepth: 16, SendSGE: 2, RecvDepth: 16, RecvSGE: 2,
				}); err != nil {
					t.Fatal(err)
				}
			}
			if err := rig.Connect(qps[0], qps[1], rig.Options{}); err != nil {
				t.Fatal(err)
			}
			const size = 20_000
			src, dst := noise(size), make([]byte, size)
			from, err := hs[0].PD.Register(src, 0x10000, qp.LocalWrite)
			if err != nil {
				t.Fatal(err)
			}
			to, err := hs[1].PD.Register(dst, 0x20000, qp.LocalWrite)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 40 {
				src[0] = byte(i)
				if err := rig.PostRecv(qps[1].Recv, uint64(i), memory.SGE{Addr: 0x20000, Length: size, LKey: to.Key}); err != nil {
					t.Fatal(err)
				}
				if err := rig.PostSend(qps[0], rig.Send{
					ID: uint64(i), Op: queue.Send, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: 0x10000, Length: size, LKey: from.Key}},
				}); err != nil {
					t.Fatal(err)
				}
				r, err := hs[1].Wait(cqs[1], 1)
				if err != nil || r[0].Status != queue.Success || r[0].WRID != uint64(i) || !bytes.Equal(dst, src) {
					t.Fatalf("message %d: %+v, %v", i, r, err)
				}
				if s, err := hs[0].Wait(cqs[0], 1); err != nil || s[0].Status != queue.Success {
					t.Fatalf("message %d: %+v, %v", i, s, err)
				}
				if i%7 == 3 {
					es[i%2].Rotate()
				}
			}
			if x.out.key.SPI()&^psp.Phase < 15 || y.out.key.SPI()&^psp.Phase < 3 {
				t.Errorf("keys did not change: SPIs %#x and %#x", x.out.key.SPI(), y.out.key.SPI())
			}
			trace := hs[1].Dev.Trace
			if bad, twice := trace.Counter(reason.PSPIntegrity), trace.Counter(reason.PSPReplay); bad == 0 || twice == 0 {
				t.Errorf("the network changed and repeated packets, %d and %d were refused", bad, twice)
			}
		})
	}
}
