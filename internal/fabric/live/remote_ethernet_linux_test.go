package live_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/fabric/live"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
)

// Programs on another host have the hosts of an Ethernet as those of the fabric's host have them.
func TestEthernetFromAnotherHost(t *testing.T) {
	t.Run("Datagrams", func(t *testing.T) {
		f := fabrictest.StartRemoteEthernet(t, "fat-tree:k=4", func(*live.Config) {})
		a, b := attachHost(f, 0), attachHost(f, 15)
		datagramsGoFromHostToHost(t, a, b)
		a6 := newWired(open(t, f.Name+"/"+address(a.port, true), hostport.Datagrams, nil))
		b6 := newWired(open(t, f.Name+"/"+address(b.port, true), hostport.Datagrams, nil))
		datagramsGoFromHostToHost(t, a6, b6)
		if mac, found, err := a.port.FindHost(b.Local().Addr()); err != nil || !found || mac != b.port.Info().Ethernet.MAC {
			t.Errorf("host %x, %v, %v", mac, found, err)
		}
		ports := answer(t, f, control.Request{Verb: control.VerbPorts}).Ports
		if p := ports[0].Programs; len(p) != 2 || p[0].Remote == "" || p[0].Process != 0 || p[0].Device != "eth:test/node-0:1" || p[1].Device != "eth:test/fd00::a00:601" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("LosslessPriorityWaitsForTheProgram", func(t *testing.T) {
		losslessPriorityWaitsForTheProgram(t, fabrictest.StartRemoteEthernet)
	})
	t.Run("WholeFrames", func(t *testing.T) {
		f := fabrictest.StartRemoteEthernet(t, "star:2", func(*live.Config) {})
		s, to := attachSystem(t, f, 0), attachHost(f, 1)
		lldp := s.await("LLDP", func(b []byte) bool { return typeOf(b) == ethernet.TypeLLDP })
		if err := s.Send(0, s.packet(ethernet.MAC(lldp[6:12]), to, 0, 8972)); err != nil {
			t.Fatal(err)
		}
		if rx := to.receive(t); len(rx.Data) != 8972 {
			t.Errorf("%d bytes", len(rx.Data))
		}
	})
	t.Run("Telemetry", func(t *testing.T) {
		f := fabrictest.StartRemoteEthernet(t, "star:2", func(*live.Config) {})
		a, b := attachHost(f, 0), attachHost(f, 1)
		want := asking(true, 500)
		a.send(t, b, 0, want)
		if rx := b.receive(t); len(rx.Telemetry) != 0 || !bytes.Equal(rx.Data, want) {
			t.Errorf("%d bytes of telemetry, %x", len(rx.Telemetry), rx.Data)
		}
		found := uint64(0)
		for _, c := range answer(t, f, control.Request{Verb: control.VerbCounters, Args: []string{"node-1"}}).Counters[0].Values {
			if c.Name == reason.EthernetTelemetry.String() {
				found = c.Value
			}
		}
		if found != 1 {
			t.Errorf("%d packets without their telemetry, expected 1", found)
		}
	})
	t.Run("AnotherNetwork", func(t *testing.T) {
		f := fabrictest.StartRemote(t, "star:2", func(*live.Config) {})
		_, err := attach.OpenService(t.Context(), f.Adapters[0], hostport.Datagrams, nil)
		var named *reason.Error
		if !errors.As(err, &named) || named.Detail.Reason != reason.FabricNode || !strings.Contains(err.Error(), "is InfiniBand") {
			t.Errorf("%v", err)
		}
	})
}
