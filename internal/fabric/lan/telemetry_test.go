package lan

import (
	"testing"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/topology"
)

// An informed is hosts that send to one, each with HPCC. The receiver returns the telemetry of each
// frame at once.
type informed struct {
	net     *Network
	senders map[int]*informedFlow
	echoes  map[uint64]*dcb.Telemetry // on their way back
	to      int
	got     int
	peak    int // of the queue before the receiver since it was set to 0
}

type informedFlow struct {
	control congestion.Control
	rtt     congestion.RTT
	flight  int
	sentAt  map[uint64]dcb.Time
	number  uint64
	got     int
}

const informedFrame = 1064 // a payload of 1,000 bytes, as in the paper

func newInformed(t *testing.T, text string) *informed {
	w := &informed{senders: map[int]*informedFlow{}, echoes: map[uint64]*dcb.Telemetry{}}
	link := lossless()
	c := Config{Fabric: generate(t, text), Link: link}
	c.Switch.Telemetry, c.Switch.Buffer.Size = true, 32<<20
	c.Deliver = w.deliver
	w.net = New(c)
	return w
}

func (w *informed) start(from int) {
	w.senders[from] = &informedFlow{control: congestion.New(congestion.HPCC, congestion.Limits{Window: 1 << 20, Packet: informedFrame}), sentAt: map[uint64]dcb.Time{}}
}

func (w *informed) frame(from, to int, priority uint8, length int32, cookie uint64) *dcb.Frame {
	f := w.net.Pool().Frame()
	w.net.Address(f, from, to, uint16(from))
	f.Len, f.Priority, f.DSCP, f.Cookie = length, priority, priority<<3, cookie
	return f
}

func (w *informed) feed(from int) {
	s := w.senders[from]
	now := w.net.Now().Duration()
	for s.flight+informedFrame <= s.control.Window() && s.control.Ready(now) <= now && w.net.Host(from).Room(3) {
		s.number++
		f := w.frame(from, w.to, 3, informedFrame, uint64(from)<<32|s.number)
		f.Telemetry = new(dcb.Telemetry)
		s.sentAt[s.number] = w.net.Now()
		s.flight += informedFrame
		s.control.Sent(now, informedFrame, int64(s.flight))
		w.net.Send(w.net.Now(), from, f)
	}
}

func (w *informed) deliver(now dcb.Time, at topology.End, f *dcb.Frame) bool {
	if from := int(f.Cookie >> 32); at.Node == w.to {
		w.got++
		w.echoes[f.Cookie] = f.Telemetry
		w.net.Send(now, w.to, w.frame(w.to, from, 0, dcb.MinFrame, f.Cookie))
	} else if s := w.senders[at.Node]; s != nil {
		trip := (now - s.sentAt[uint64(uint32(f.Cookie))]).Duration()
		echo := w.echoes[f.Cookie]
		delete(s.sentAt, uint64(uint32(f.Cookie)))
		delete(w.echoes, f.Cookie)
		s.rtt.Sample(now.Duration(), trip)
		var hops []congestion.Hop
		for _, h := range echo.Hops[:echo.Count] {
			hops = append(hops, congestion.Hop{At: time.Duration(h.Time), Sent: h.Bytes, Queue: int(h.Queue), Rate: float64(h.Rate) * 1e6 / 8})
		}
		s.control.(congestion.Informed).Telemetry(now.Duration(), hops, &s.rtt)
		s.control.Acked(now.Duration(), informedFrame, trip, &s.rtt)
		s.flight -= informedFrame
		s.got++
	}
	w.net.Pool().Put(f)
	return true
}

func (w *informed) run(d dcb.Time) {
	out := w.net.end(topology.End{Node: w.to, Port: 1}).peer
	for end := w.net.Now() + d; w.net.Now() < end; {
		for from := range w.net.nodes {
			if w.senders[from] != nil {
				w.feed(from)
			}
		}
		w.net.Run(w.net.Now() + 100*dcb.Nanosecond)
		w.peak = max(w.peak, w.net.port(&w.net.ends[out]).Queue(3).Bytes)
	}
}

// TestHPCCKeepsTheQueueOfAnIncastEmpty has sixteen hosts send to one that a flow has had for itself
// (SIGCOMM 2019, 5.2): the queue of the beginning is gone soon, the link is in use to 95 percent
// without its headers and acknowledges, and all have their share.
func TestHPCCKeepsTheQueueOfAnIncastEmpty(t *testing.T) {
	w := newInformed(t, "star:17,speed=100G,length=200m")
	w.start(1)
	w.to = 17
	w.run(300 * dcb.Microsecond)
	const wire = float64(informedFrame+20) * 8
	if alone := float64(w.got) * wire / 300e-6 / 100e9; alone < .9 || w.peak > 20*informedFrame {
		t.Errorf("one flow uses %.3f of the link with %d bytes waiting", alone, w.peak)
	}
	for from := 2; from <= 16; from++ {
		w.start(from)
	}
	w.run(300 * dcb.Microsecond)
	first := w.peak
	w.peak, w.got = 0, 0
	for _, s := range w.senders {
		s.got = 0
	}
	const span = dcb.Millisecond
	w.run(span)
	use := float64(w.got) * wire / time.Duration(span/dcb.Nanosecond).Seconds() / 100e9
	var shares []float64
	for _, s := range w.senders {
		shares = append(shares, float64(s.got))
	}
	t.Logf("at the start %d bytes waited, then at most %d; %.3f of the link in use, fairness %.3f", first, w.peak, use, congestion.Jain(shares))
	if use < .9 || use > .98 || w.peak > 50*informedFrame || first < 2*w.peak || congestion.Jain(shares) < .9 {
		t.Errorf("%.3f of the link in use, %d bytes waiting, %d at the start, fairness %.3f", use, w.peak, first, congestion.Jain(shares))
	}
}
