package top

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"softrdma/internal/control"
	"softrdma/internal/object"
	"softrdma/internal/sampler"
)

// sampleAt returns a sample of a WRITE over the network and of a pair that only waits, n seconds after
// the first.
func sampleAt(n int) *sample {
	at := time.Date(2026, 11, 29, 12, 0, n, 0, time.UTC)
	u := uint64(n)
	connection := func(number, peer uint32, to string, received uint64, m object.Measurements) object.QP {
		return object.QP{
			Number: number, Type: "RC", State: "RTS", PD: 1, SendCQ: 1, RecvCQ: 1, Peer: to + ":4791", PeerQP: peer, PathMTU: 4096, SQPSN: 100,
			RQPSN: 200, Sends: 16, Received: received, Measured: &m,
		}
	}
	info := func(name string, counters map[string]uint64, sent, received uint64) control.Info {
		return control.Info{
			Name: name, Protocol: "RoCE v2", Address: name + ":4791", Device: "lo", State: "active", MTU: 4096, GUID: "1", Counters: counters,
			Sent: sent, Received: received, Time: at,
		}
	}
	program := func(pid int, name string, devices ...sampler.Device) sampler.Process {
		return sampler.Process{Answer: control.Answer{Socket: control.Socket{PID: pid}, Process: control.Process{PID: pid, Program: name}}, Open: devices}
	}
	const packets, second = 500_000, 500_000 * 4096
	return &sample{At: at, Processes: []sampler.Process{
		program(4711, "ib_write_bw", sampler.Device{
			Info: info("192.0.2.17", map[string]uint64{"PACKET_REPEATED": 12 * u, "ACK_TIMEOUT": 1}, second*u, 0),
			QPs: []object.QP{
				connection(0x2a, 0x1f, "192.0.2.18", 0, object.Measurements{
					Acknowledged: uint32(packets * u), Bytes: uint32(packets * (4096 + 64) * u), Expected: 200, InFlight: 32,
					RoundTrip: 42100 * time.Nanosecond, Window: 128 << 10, Retransmitted: uint32(12*n + 1),
				}),
				{Owner: object.Owner{PID: 4711}, Number: 0x2b, Type: "UD", State: "RTS", PD: 1, SendCQ: 1, RecvCQ: 1, PathMTU: 4096, Received: 1000 * u},
			},
		}),
		program(4712, "server", sampler.Device{
			Info: info("192.0.2.18", map[string]uint64{}, 0, second*u),
			QPs:  []object.QP{connection(0x1f, 0x2a, "192.0.2.17", second*u, object.Measurements{Expected: uint32(1<<24-5+packets*u) % (1 << 24), Window: 128 << 10})},
		}),
	}}
}

func TestRatesAreDifferencesOverTheMeasuredTime(t *testing.T) {
	r := compare(sampleAt(1), sampleAt(3))
	if r.Seconds != 2 || len(r.Processes) != 2 {
		t.Fatalf("%+v", r)
	}
	d := r.Processes[0].Devices[0]
	if *d.Rates != (sampler.DeviceRates{Sent: 500_000 * 4096, Retransmissions: 12, Reasons: 12}) || d.Retransmissions != 37 {
		t.Errorf("%+v, %d retransmissions", d.Rates, d.Retransmissions)
	}
	if d.Reasons[0] != (sampler.ReasonReport{Name: "PACKET_REPEATED", Count: 36, Rate: 12}) || d.Reasons[1] != (sampler.ReasonReport{Name: "ACK_TIMEOUT", Count: 1}) {
		t.Errorf("%+v", d.Reasons)
	}
	// 4.16 GB in two seconds, of which the queue pair has counted the lowest 32 bits.
	want := &sampler.QPRates{ConnectionRates: &sampler.ConnectionRates{SentBytes: 500_000 * 4096, SentPackets: 500_000, Retransmissions: 12}}
	if diff := cmp.Diff(d.QPs[0].Rates, want); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(d.QPs[1].Rates, &sampler.QPRates{ReceivedBytes: 1000}); diff != "" { // of datagrams
		t.Error(diff)
	}
	want = &sampler.QPRates{ReceivedBytes: 500_000 * 4096, ConnectionRates: &sampler.ConnectionRates{ReceivedPackets: 500_000}}
	if diff := cmp.Diff(r.Processes[1].Devices[0].QPs[0].Rates, want); diff != "" {
		t.Error(diff)
	}
}

func TestNewDevicesAndConnectionsHaveNoRates(t *testing.T) {
	before, now := sampleAt(1), sampleAt(2)
	now.Processes[0].Open[0].QPs[0].SQPSN++ // connected again
	now.Processes[0].Open[0].QPs[1].Received = 1
	now.Processes[1].Open[0].Info.GUID = "17" // opened again
	r := compare(before, now)
	if d := r.Processes[0].Devices[0]; d.Rates == nil || d.QPs[0].Rates.ConnectionRates != nil || d.QPs[1].Rates != nil {
		t.Errorf("%+v", d)
	}
	if d := r.Processes[1].Devices[0]; d.Rates != nil {
		t.Errorf("%+v", d)
	}
	if r := compare(nil, now); r.Seconds != 0 || r.Processes[0].Devices[0].Rates != nil {
		t.Errorf("%+v", r)
	}
}

// A daemon lists the queue pairs of programs whose devices are in their own processes, which tell more.
func TestQueuePairsOfADaemonsProgramsAppearOnce(t *testing.T) {
	s := sampleAt(1)
	s.Processes[1].Open[0].Owners = map[int]string{17: "ib_send_bw"}
	s.Processes[1].Open[0].QPs = append(s.Processes[1].Open[0].QPs,
		object.QP{Owner: object.Owner{PID: 4711}, Number: 0x2b, Type: "UD"}, object.QP{Owner: object.Owner{PID: 17}, Number: 0x2c})
	r := compare(nil, s)
	if q := r.Processes[1].Devices[0].QPs; len(q) != 2 || q[1].OwnerPID != 17 || q[1].Program != "ib_send_bw" || q[0].OwnerPID != 4712 || q[0].Program != "server" {
		t.Errorf("%+v", q)
	}
	if q := r.Processes[0].Devices[0].QPs; len(q) != 2 {
		t.Errorf("%+v", q)
	}
}

func TestProgramsThatDoNotAnswerAreNamed(t *testing.T) {
	s := &sample{Failed: errors.Join(fmt.Errorf("process 7: %w", errors.New("x")), errors.Join(errors.New("process 8: y")))}
	if r := compare(nil, s); len(r.Errors) != 2 || r.Errors[0] != "process 7: x" || r.Errors[1] != "process 8: y" {
		t.Errorf("%q", r.Errors)
	}
}

func TestFiguresFitTheirColumns(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.04: "0", 0.5: "0.5", 7.46: "7.5", 9.96: "10", 12: "12", 999.4: "999", 999.6: "1.00k", 9994: "9.99k", 9996: "10.0k",
		1.234e6: "1.23M", 99.96e9: "100G", 3.05e12: "3.05T",
	} {
		if got := count(v); got != want || len(got) > 5 {
			t.Errorf("%v: found %q, expected %q", v, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 4096: "4Ki", 128 << 10: "128Ki", 3 << 19: "1.5Mi", 1 << 30: "1Gi"} {
		if got := size(n); got != want || len(got) > 5 {
			t.Errorf("%v: found %q, expected %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "-", 1: "0.0µs", 42100: "42.1µs", 99960: "100µs", 999600: "1.0ms", 1500 * time.Millisecond: "1.5s"} {
		if got := trip(d); got != want {
			t.Errorf("%v: found %q, expected %q", d, got, want)
		}
	}
}
