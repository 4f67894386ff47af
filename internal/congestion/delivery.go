package congestion

import "time"

// A delivery samples the rate at which a path delivers (draft-ietf-ccwg-bbr, 4.1.2). It
// counts bytes only: what was sent earlier has arrived, or is lost, earlier. So the position of a
// packet is the number of bytes that had left with it, and the packet is answered when as many
// have arrived or are known to be lost.
type delivery struct {
	delivered, lost int64 // bytes since the beginning
	flight          int64 // bytes in flight, as the last packet left

	at      time.Duration // when something was delivered last
	sentAt  time.Duration // when the mark that was answered last was sent
	limited int64         // until this position is answered the sender, not the path, sets the rate

	marks      [maxMarks]mark
	head, used int

	short mark // where a short sample began, see startRate
	ended mark // and when that was answered: at and delivered
}

// A mark is what was known when a packet left.
type mark struct {
	position  int64 // behind the packet
	at        time.Duration
	delivered int64
	heard     time.Duration // when that was delivered
	earlier   time.Duration // when the mark was sent that had been answered last
	limited   bool          // the sender had less to send than the path carries
}

// maxMarks bounds the marks in flight, and with them the memory of a queue pair.
const maxMarks = 32

// answered is the position up to which packets have arrived or are lost.
func (d *delivery) answered() int64 { return d.delivered + d.lost }

// sent notes n bytes that leave, after which flight bytes are in flight. There are spacing bytes
// between two marks.
func (d *delivery) sent(now time.Duration, n int, flight, spacing int64) {
	d.flight = flight
	if flight <= int64(n) { // nothing was in flight: the pause does not count
		d.at, d.sentAt, d.used, d.short = now, now, 0, mark{}
	}
	position := d.answered() + flight
	if d.used > 0 {
		last := &d.marks[(d.head+d.used-1)%maxMarks]
		if d.used == maxMarks || position < last.position+spacing {
			return
		}
	}
	d.marks[(d.head+d.used)%maxMarks] = mark{
		position: position, at: now, delivered: d.delivered, heard: d.at, earlier: d.sentAt, limited: d.limited > d.answered(),
	}
	d.used++
}

// A rateSample is a measured rate.
type rateSample struct {
	rate    float64 // bytes per second, 0 if there is none
	limited bool    // the path may be faster
}

// acked notes n bytes that arrived, and returns the rate of the last round trip. A sample that
// took less than least shows how acknowledges were delayed, not the path.
func (d *delivery) acked(now time.Duration, n int, least time.Duration) (s, start rateSample) {
	d.delivered += int64(n)
	d.at = now
	var m mark
	for ; d.used > 0 && d.marks[d.head].position <= d.answered(); d.used-- {
		m = d.marks[d.head]
		d.head = (d.head + 1) % maxMarks
	}
	if m.position == 0 {
		return s, start
	}
	d.sentAt = m.at
	if took := max(now-m.heard, m.at-m.earlier); took >= least {
		s = rateSample{float64(d.delivered-m.delivered) / took.Seconds(), m.limited}
	}
	return s, d.startRate(now, least, m)
}

// startRate measures over a part of a round trip, so that a flow that starts does not have to
// wait for a whole one: it compares the times at which two packets left and were answered.
func (d *delivery) startRate(now, least time.Duration, m mark) (s rateSample) {
	from := d.short
	took := max(now-d.ended.at, m.at-from.at)
	if from.position > 0 && took < max(least/startParts, 1) {
		return s
	}
	if from.position > 0 && m.position > from.position {
		s = rateSample{float64(d.delivered-d.ended.delivered) / took.Seconds(), m.limited}
	}
	d.short, d.ended = m, mark{at: now, delivered: d.delivered}
	return s
}

// startParts is the number of samples in a round trip at the start.
const startParts = 8

// forget drops all marks: what was in flight is not any more.
func (d *delivery) forget() { d.used, d.short = 0, mark{} }
