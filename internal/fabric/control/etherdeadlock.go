package control

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/wire/ethernet"
)

func (c *etherView) deadlock(r *Request, reply *Reply) error {
	still := r.Still
	if still <= 0 {
		still = defaultStill
	}
	if _, err := r.priority(); err != nil {
		return err
	}
	d := &Deadlock{Cycle: []Channel{}, Still: []Lane{}, Deadlock: []Channel{}}
	c.possible(r, d)
	s := c.Standstill(dcb.FromDuration(still))
	for i := range s.Waits {
		w := &s.Waits[i]
		l := Lane{
			Channel: c.channel(w.Channel), To: c.otherEnd(w.End), Time: (c.Network.Now() - w.Since).Duration(),
			Packets: w.Frames, Cause: w.Cause, Waits: []Channel{},
		}
		for _, to := range w.Next {
			l.Waits = append(l.Waits, c.channel(to))
		}
		d.Still = append(d.Still, l)
	}
	for _, at := range s.Deadlock {
		d.Deadlock = append(d.Deadlock, c.channel(at))
	}
	reply.Deadlock = d
	return nil
}

func (c *etherView) channel(at lan.Channel) Channel {
	return Channel{Node: c.names[at.End.Node], Port: at.End.Port, VL: at.Priority}
}

// possible finds out which pauses can wait for each other with the present routes.
func (c *etherView) possible(r *Request, d *Deadlock) {
	lossless := uint8(0)
	for _, e := range c.cables() {
		lossless |= c.Port(e).Config().Lossless
	}
	priorities := c.first(lossless)
	if r.SL != nil {
		priorities = 1 << *r.SL
	}
	for set := priorities; set != 0; set &= set - 1 {
		d.From = append(d.From, bits.TrailingZeros8(set))
	}
	possible := c.Dependencies(priorities)
	circles := possible.Circles()
	if len(circles) == 0 {
		return
	}
	d.Cycles = len(circles)
	for _, at := range possible.Circle(circles[0]) {
		d.Cycle = append(d.Cycle, c.channel(at))
	}
	d.Avoid = []string{"routes that go up towards a root and then down: softrdma fabric up --routing updn"}
	if n := c.LongestPath(); n <= ethernet.Priorities {
		first := ethernet.Priorities - n
		if lossless != 0 {
			first = min(first, bits.TrailingZeros8(lossless))
		}
		list := make([]string, n)
		for i := range list {
			list[i] = strconv.Itoa(first + i)
		}
		d.Avoid = append(d.Avoid, fmt.Sprintf("a higher priority with each switch, of which a path has up to %d: softrdma fabric up --lossless %s --raise", n, strings.Join(list, ",")))
	}
}

// first leaves out priorities to which switches raise the frames of others.
func (c *etherView) first(lossless uint8) uint8 {
	set := lossless
	for i := range c.fabric.Nodes {
		sw := c.Switch(i)
		if sw == nil {
			continue
		}
		for p := range uint8(ethernet.Priorities) {
			if to := sw.Remarked(p<<3) >> 3; to != p && lossless&(1<<p) != 0 {
				set &^= 1 << to
			}
		}
	}
	return set
}
