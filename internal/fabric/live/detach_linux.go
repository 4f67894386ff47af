package live

import "time"

// Limits on sending what an ended program has left in its rings: it ends after a time and a
// number of looks in which no packet has left, and after more packets than the rings hold.
const (
	drainLimit  = 2 * time.Millisecond
	drainLooks  = 64
	drainRounds = 1 << 12
)

// drain sends what an ended program has sent, as far as the receivers give credit.
func (f *Fabric) drain(a *attachment) {
	last, idle := f.now(), 0
	for range drainRounds {
		now := f.now()
		switch {
		case a.pull(now):
			last, idle = now, 0
		case a.refused() == 0 || now-last >= drainLimit && idle >= drainLooks:
			return
		default:
			idle++
		}
		f.network.run(now, now+ahead)
		f.ring()
	}
}

// detach removes a program from its port when the packets that it has sent have left. Packets
// that wait for it are dropped.
func (f *Fabric) detach(a *attachment) {
	f.drain(a)
	f.cool(a)
	a.ended = true
	f.programs[a.at.Node].of(a.at.Port, a.service).leave(a)
	for i := range a.in {
		if x := &a.in[i]; x.frame != nil {
			f.network.discard(x)
		}
	}
	f.network.unplug(f.now(), a)
	f.depart(a)
	close(a.gone)
}
