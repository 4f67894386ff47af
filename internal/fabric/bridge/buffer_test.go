package bridge

import (
	"testing"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
)

// TestHeadroomIsExact puts the neighbor into the worst position: the switch begins to send a long
// frame on the link as it has to pause, the neighbor sends without a gap until the pause takes
// effect, and nothing leaves by the other port. The computed headroom is what these frames take, and
// a cell less loses one.
func TestHeadroomIsExact(t *testing.T) {
	const mtu, cell = 1518, 256
	for _, metres := range []int{0, 1, 10, 100, 1000, 20000} {
		for _, response := range []dcb.Time{0, 400 * dcb.Nanosecond} {
			delay := dcb.Time(metres) * 5 * dcb.Nanosecond
			link := pfc(1 << 3)
			link.Response = response
			exact := dcb.Headroom(link, cell, mtu, delay, response)
			for short := range 2 {
				w := newWorld(t, Config{Ports: ports(2, link), Buffer: BufferConfig{Size: 2*(exact-short*cell) + 200*cell, Cell: cell, Lossless: -8}})
				w.sw.config.Ports[1].Headroom, w.sw.config.Ports[2].Headroom = exact-short*cell, exact-short*cell
				w.sw.Reserve()
				w.learn()
				w.flood(mtu, delay, response)
				if dropped := len(w.drops) > 0; dropped != (short > 0) {
					t.Errorf("%d m, response of %d ps, headroom of %d bytes: dropped %v", metres, response, exact-short*cell, w.drops)
				}
				for _, d := range w.drops {
					if d.Reason != reason.EthernetHeadroom || d.Expected != uint64(exact-short*cell) {
						t.Errorf("dropped for %v", d)
					}
				}
			}
		}
	}
}

// flood sends frames of priority 3 to port 1 without a gap, until the switch's pause takes effect.
func (w *world) flood(mtu int, delay, response dcb.Time) {
	w.pause(2, 0xffff, 1<<3)
	// A frame for port 1 leaves just as the first frame arrives.
	w.receive(2, func(f *dcb.Frame) { f.Dst, f.Len = host(1), int32(mtu) })
	begin := w.due[1]
	w.run(begin)
	effect := dcb.Never
	byteTime := w.sw.Port(1).PerByte()
	if begin == dcb.Never {
		w.t.Fatalf("the frame of the other direction was dropped: %v", w.drops)
	}
	for at := begin; at-delay < effect && at-begin < dcb.Second; at += dcb.Time(dcb.WireLen(mtu)) * byteTime {
		w.run(at)
		w.receive(1, func(f *dcb.Frame) { f.Dst, f.Len, f.DSCP, f.IP = host(2), int32(mtu), 3<<3, true })
		for w.due[1] <= at+dcb.Time(dcb.WireLen(mtu))*byteTime && effect == dcb.Never {
			w.run(w.due[1])
			for _, d := range w.sent {
				if d.f.Op != 0 && d.port == 1 {
					effect = d.at + dcb.Time(dcb.WireLen(dcb.MinFrame))*byteTime + delay + response
				}
			}
		}
	}
}
