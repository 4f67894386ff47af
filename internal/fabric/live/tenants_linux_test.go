package live_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// key is that of the ports that these tests share.
var key = []byte("0123456789abcdef")

// shared attaches to a lane of four of an adapter's port.
func shared(t *testing.T, f *fabrictest.Fabric, adapter, lane int) *attach.Port {
	t.Helper()
	p, err := attach.OpenShare(t.Context(), f.Adapters[adapter], &attach.Share{Key: key, Lane: lane, Of: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	fabrictest.WaitFor(t, "an active port", func() bool { return p.Info().PortInfo.State == smp.PortActive })
	return p
}

// to returns a datagram for a queue pair, or for a group if the LID is one's.
func to(from *attach.Port, dlid ib.LID, qpn, seq uint32) []byte {
	payload := make([]byte, 2048)
	binary.BigEndian.PutUint32(payload, seq)
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: smp.DefaultPKey, DestQPN: qpn}, Payload: payload}
	h := ib.LRH{Next: ib.LocalBTH, DLID: dlid, SLID: ib.LID(from.Info().PortInfo.LID)}
	b := ib.AppendNative(nil, h, nil, &p)
	return b[:len(b)-ib.VCRCLen]
}

func lid(p *attach.Port) ib.LID { return ib.LID(p.Info().PortInfo.LID) }

func TestSharedPortsPacketsGoToTheLaneOfTheirQueuePair(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	other := f.Attach(1)
	lanes := []*attach.Port{shared(t, f, 0, 0), shared(t, f, 0, 1), shared(t, f, 0, 3)}
	for _, from := range append(lanes, other) {
		for i, qpn := range []uint32{0x1000, 0x1001, 0x1003} {
			want := to(from, lid(lanes[0]), qpn, uint32(i))
			send(t, from, want)
			if got := receive(t, lanes[i]); !bytes.Equal(got, want) {
				t.Errorf("to %#x: %x, expected %x", qpn, got, want)
			}
		}
	}
}

// A datagram to a group comes to all programs of its sender's port but the sender, which loops it
// by itself.
func TestSharedPortsGroupsReachEveryProgram(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	a, b, c := shared(t, f, 0, 0), shared(t, f, 0, 1), shared(t, f, 0, 2)
	want := to(a, 0xc001, 0xffffff, 1)
	send(t, a, want)
	for _, p := range []*attach.Port{b, c} {
		if got := receive(t, p); !bytes.Equal(got, want) {
			t.Errorf("%x, expected %x", got, want)
		}
	}
}

func TestSharedPortRefusals(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	advice := "share the port by softrdma daemon"
	refused := func(what string, adapter int, s *attach.Share, want reason.Reason) {
		t.Helper()
		var err error
		// Programs wait for a lane that is held, and the fabric may be too busy for an answer in a short time.
		for limit := time.Second / 2; limit < 20*time.Second; limit *= 2 {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			var p *attach.Port
			p, err = attach.OpenShare(ctx, f.Adapters[adapter], s)
			cancel()
			if err == nil {
				_ = p.Close()
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				break
			}
		}
		var why *reason.Error
		if !errors.As(err, &why) || why.Detail.Reason != want || want == reason.FabricHeld && !strings.Contains(err.Error(), advice) {
			t.Errorf("%s: %v, expected %v", what, err, want)
		}
	}
	manager, program := shared(t, f, 0, 0), shared(t, f, 0, 1)
	_ = f.Attach(1)
	held := func(what string) {
		t.Helper()
		refused(what+", the whole port", 0, nil, reason.FabricHeld)
		refused(what+", another key", 0, &attach.Share{Key: []byte("fedcba9876543210"), Lane: 2, Of: 4}, reason.FabricHeld)
		refused(what+", another number of lanes", 0, &attach.Share{Key: key, Lane: 2, Of: 8}, reason.FabricHeld)
		refused(what+", a lane that is taken", 0, &attach.Share{Key: key, Lane: 1, Of: 4}, reason.FabricHeld)
	}
	held("shared")
	refused("a port that is not shared", 1, &attach.Share{Key: key, Lane: 1, Of: 4}, reason.FabricHeld)
	for _, s := range []attach.Share{{Key: key[:8], Lane: 1, Of: 4}, {Key: key, Lane: 4, Of: 4}, {Key: key, Lane: -1, Of: 4}, {Key: key, Of: 1}, {Key: key, Of: 1 << 30}} {
		refused("a wrong share", 1, &s, reason.FabricMessage)
	}
	if err := manager.Close(); err != nil {
		t.Fatal(err)
	}
	fabrictest.WaitFor(t, "the lane", func() bool {
		p, err := attach.OpenShare(context.Background(), f.Adapters[0], &attach.Share{Key: key, Lane: 0, Of: 4})
		if err != nil {
			return false
		}
		return p.Close() == nil
	})
	advice = "that has ended: end its programs first"
	held("without its manager")
	want := to(program, lid(program), 0x1001, 1)
	send(t, program, want)
	if got := receive(t, program); !bytes.Equal(got, want) {
		t.Errorf("without its manager: %x, expected %x", got, want)
	}
}

// A program that takes no packets must not keep back those of others at its port.
func TestSharedPortStoppedProgramLosesItsPackets(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	other, stopped, running := f.Attach(1), shared(t, f, 0, 1), shared(t, f, 0, 2)
	for seq := range uint32(8192) { // more than all that is between the two holds
		send(t, other, to(other, lid(stopped), 0x1001, seq))
	}
	for seq := range uint32(100) {
		want := to(other, lid(running), 0x1002, seq)
		send(t, other, want)
		if got := receive(t, running); !bytes.Equal(got, want) {
			t.Fatalf("packet %d: %x, expected %x", seq, got, want)
		}
	}
	first := receive(t, stopped) // what was there before it stopped
	if want := to(other, lid(stopped), 0x1001, 0); !bytes.Equal(first, want) {
		t.Errorf("%x, expected %x", first, want)
	}
}

// Queue pairs 0 and 1 are the manager's: another program neither sends from queue pair 0, nor says
// that a subnet manager runs at the port.
func TestSharedPortManagementIsItsManagers(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	manager := shared(t, f, 0, 0)
	for what, ask := range map[string]func(*attach.Port) error{
		"a packet":         func(p *attach.Port) error { return p.SendMAD(new(attach.Departure)) },
		"a subnet manager": func(p *attach.Port) error { return p.SetSM(true) },
	} {
		p, err := attach.OpenShare(t.Context(), f.Adapters[0], &attach.Share{Key: key, Lane: 1, Of: 4})
		if err != nil {
			t.Fatal(err)
		}
		lost := make(chan struct{}, 1)
		p.Watch(func(_, now *attach.Info, _ attach.Event) {
			if !now.Up {
				select {
				case lost <- struct{}{}:
				default:
				}
			}
		})
		if err := ask(p); err != nil {
			t.Fatal(err)
		}
		select {
		case <-lost:
		case <-time.After(20 * time.Second):
			t.Errorf("%s of a program with lane 1 is accepted", what)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if manager.Info().PortInfo.CapabilityMask&smp.CapSM != 0 {
		t.Error("the port has a subnet manager")
	}
	if err := manager.SetSM(true); err != nil {
		t.Fatal(err)
	}
	fabrictest.WaitFor(t, "IsSM", func() bool { return manager.Info().PortInfo.CapabilityMask&smp.CapSM != 0 })
}

// Programs attach again to a fabric that was started again, in any order.
func TestSharedPortIsSharedAgainAfterARestart(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	a, b := shared(t, f, 0, 0), shared(t, f, 0, 1)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	fabrictest.WaitFor(t, "both programs to lose the fabric", func() bool { return !a.Info().Up && !b.Info().Up })
	f.Restart()
	for _, p := range []*attach.Port{a, b} {
		fabrictest.WaitFor(t, "an active port", func() bool { i := p.Info(); return i.Up && i.PortInfo.State == smp.PortActive })
	}
	want := to(a, lid(a), 0x1001, 1)
	send(t, a, want)
	if got := receive(t, b); !bytes.Equal(got, want) {
		t.Errorf("%x, expected %x", got, want)
	}
}

// shareAt attaches to a lane of the first adapter's port, of the fabric at a place.
func shareAt(t *testing.T, f *fabrictest.Fabric, lane int, at *attach.Place) *attach.Port {
	t.Helper()
	p, err := attach.OpenShare(t.Context(), f.Adapters[0], &attach.Share{Key: key, Lane: lane, Of: 4, Place: at})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	fabrictest.WaitFor(t, "an active port", func() bool { return p.Info().PortInfo.State == smp.PortActive })
	return p
}

// Programs on another host share a port with the secret of the first one, which they do not know
// by themselves.
func TestSharedPortOfAnotherHost(t *testing.T) {
	f := fabrictest.StartRemote(t, "star:2", func(c *live.Config) { c.Remote.Secret = []byte("a secret of both hosts") })
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("a secret of both hosts"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(attach.SecretVariable, file)
	manager := shareAt(t, f, 0, nil)
	t.Setenv(attach.SecretVariable, "")
	a, b := shareAt(t, f, 1, manager.Place()), shareAt(t, f, 2, manager.Place())
	for _, x := range []struct{ from, to *attach.Port }{{a, b}, {b, a}, {manager, a}} {
		lane := uint32(1)
		if x.to == b {
			lane = 2
		}
		want := to(x.from, lid(x.to), 0x1000+lane, 7)
		send(t, x.from, want)
		if got := receive(t, x.to); !bytes.Equal(got, want) {
			t.Errorf("to lane %d: %x, expected %x", lane, got, want)
		}
	}
}

// The directory of the first program's fabric counts, not that of another program's environment.
func TestSharedPortIsThatOfTheFirstProgramsFabric(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	manager := shared(t, f, 0, 0)
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	if p := shareAt(t, f, 1, manager.Place()); lid(p) != lid(manager) {
		t.Errorf("LID %d, expected %d", lid(p), lid(manager))
	}
}
