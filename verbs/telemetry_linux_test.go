package verbs

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"softrdma/internal/capture"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/internal/wire/ib"
)

// Between softrdma ends on an Ethernet fabric the switches' telemetry comes back with acknowledges, if the
// sender's control takes it and the receiver's recovery announces selective acknowledges.
func TestTelemetryOfAnEthernetReachesPrograms(t *testing.T) {
	x := fabrictest.StartEthernet(t, "leaf-spine:leaves=2,spines=1,hosts=1", func(*live.Config) {})
	for _, c := range []struct {
		name, prefix   string
		sender         CongestionControl
		receiver       Recovery
		asked, answers bool
	}{
		{"RoCE v2", "eth:", "hpcc", SelectiveRepeat, true, true},
		{"RoCE v1", "roce1:eth:", "hpcc", SelectiveRepeat, true, true},
		{"another control", "eth:", CongestionDCQCN, SelectiveRepeat, false, false},
		{"a receiver of another implementation", "eth:", "hpcc", GoBackN, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ends [2]*fabricEnd
			var packets bytes.Buffer
			var stop []func() error
			for i, cfg := range []Config{{Congestion: c.sender}, {Recovery: c.receiver}} {
				d, err := Open(c.prefix+x.Adapters[i], cfg)
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					w, err := d.Capture(&packets)
					if err != nil {
						t.Fatal(err)
					}
					stop = append(stop, w.Close)
				}
				stop = append(stop, d.Close)
				ends[i] = newFabricEnd(t, d, RC)
			}
			connectFabric(t, ends[0], ends[1], ConnectConfig{})
			everyOperation(t, ends[0], ends[1], RC)
			for _, f := range stop {
				if err := f(); err != nil {
					t.Error(err)
				}
			}
			asked, answers := telemetryIn(t, &packets)
			if (asked > 0) != c.asked || (answers > 0) != c.answers {
				t.Errorf("%d packets ask for telemetry, and %d bring it back", asked, answers)
			}
		})
	}
}

// telemetryIn counts the packets of a capture that ask for telemetry, and those that bring it.
func telemetryIn(t *testing.T, file io.Reader) (asked, answers int) {
	t.Helper()
	r, err := capture.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for p := new(capture.Packet); ; {
		err := r.Next(p)
		if errors.Is(err, io.EOF) {
			return asked, answers
		}
		if err != nil {
			t.Fatal(err)
		}
		if p.Telemetry {
			asked++
		}
		if p.Opcode == ib.RCTelemetry {
			answers++
		}
	}
}
