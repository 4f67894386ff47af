package lessons

import (
	"context"
	"fmt"
	"math"
	"time"

	"softrdma/faults"
	"softrdma/verbs"
)

var losses = lesson{
	id: "lost-packet", title: "What a lost packet costs",
	summary: "The same packet is lost with go-back-N, as the standard has it, and with selective repeat: what is sent again, and how long it takes.",
	begin:   beginLosses,
}

// A cost is what a transfer took.
type cost struct {
	time  time.Duration
	sent  uint64 // bytes of payload, with those that were sent again
	lost  uint64 // packets that the rules have dropped
	bytes int
}

func (c cost) again() uint64 { return c.sent - min(uint64(c.bytes), c.sent) }

// lossSeed makes random losses the same in each run.
const lossSeed = 7

// A lossLesson is the state of the lesson.
type lossLesson struct {
	*tour
	p *pair

	none, goBack, repeat cost
}

func beginLosses(t *tour) []step {
	x := &lossLesson{tour: t}
	return []step{x.noLoss(), x.goingBack(), x.repeating(), x.lastPacket(), x.often()}
}

// transfer sends a message on new queue pairs, with rules of faults at A.
func (x *lossLesson) transfer(ctx context.Context, r *Result, how verbs.Recovery, n int, rules ...faults.Rule) (c cost, err error) {
	if x.p == nil {
		if x.p, err = x.newPair(ctx, sockets, x.size, verbs.QPConfig{Recovery: how}); err != nil {
			return c, err
		}
		err = x.p.connect(connection, connection)
	} else {
		err = x.p.again(verbs.QPConfig{Recovery: how}, connection, connection)
	}
	if err != nil {
		return c, err
	}
	injector := x.p.a.dev.Faults()
	if err = injector.Set(faults.Rules{Seed: lossSeed, Rules: rules}); err != nil {
		return c, err
	}
	defer injector.Clear()
	before, _ := x.p.a.dev.Traffic()
	since := time.Now()
	if err = x.p.post(verbs.OpWrite, n); err != nil {
		return c, err
	}
	if _, err = x.p.a.good(ctx); err != nil {
		return c, err
	}
	c = cost{time: time.Since(since), bytes: n}
	if err = x.p.draw(r, since); err != nil {
		return c, err
	}
	after, _ := x.p.a.dev.Traffic()
	c.sent = after - before
	for _, hits := range injector.Counts() {
		c.lost += hits
	}
	r.figure("data", size(uint64(n)))
	r.figure("packets lost", fmt.Sprint(c.lost))
	r.figure("sent again", size(c.again()))
	r.figure("time", duration(c.time))
	return c, nil
}

// best is the transfer of a message that was the fastest of several, of which the last one is drawn.
func (x *lossLesson) best(ctx context.Context, r *Result, how verbs.Recovery, rules ...faults.Rule) (c cost, err error) {
	fastest := time.Duration(math.MaxInt64)
	for range transfers {
		*r = *newResult()
		if c, err = x.transfer(ctx, r, how, message, rules...); err != nil {
			return c, err
		}
		fastest = min(fastest, c.time)
	}
	c.time = fastest
	r.Figures[len(r.Figures)-1].Value = duration(fastest)
	return c, nil
}

func (x *lossLesson) noLoss() step {
	return step{
		title: "Nothing is lost",
		text: "A writes 256 KiB to B's memory in one WRITE, over UDP on the loopback interface. The message goes in packets of the path MTU, each with " +
			"the next packet sequence number (PSN). B acknowledges some of them, and with each all before it.",
		run: func(ctx context.Context, r *Result) (err error) {
			if x.none, err = x.best(ctx, r, verbs.SelectiveRepeat); err != nil {
				return err
			}
			r.say("This is what the next steps are compared with. The ladder shows packets that differ in their PSN alone as one line.")
			return nil
		},
	}
}

func (x *lossLesson) goingBack() step {
	return step{
		title: "One packet is lost: go-back-N",
		text: "A rule of faults drops the tenth packet. B's device sees a gap in the PSNs, drops all that follow, and asks for the " +
			"missing one with a NAK (PSN sequence error). The InfiniBand standard lets a requester do only one thing then: go back, and send everything " +
			"from the lost packet on again.",
		explain: []string{"NAK_SEQUENCE", "SEQUENCE_AHEAD"},
		run: func(ctx context.Context, r *Result) (err error) {
			if x.goBack, err = x.best(ctx, r, verbs.GoBackN, tenth); err != nil {
				return err
			}
			r.say(fmt.Sprintf("%d packet was lost, and %s were sent again: all that A had sent behind it before the NAK arrived. The longer the path, "+
				"the more that is.", x.goBack.lost, size(x.goBack.again())))
			r.say("In the ladder the lost packet ends in the middle: A has recorded it, and B has not.")
			return nil
		},
	}
}

func (x *lossLesson) repeating() step {
	return step{
		title: "One packet is lost: selective repeat",
		text: "The same packet is lost again. Now both ends keep what arrives behind a gap, and B says which packets it has. Both must be able to: " +
			"softrdma can, some adapters can, and with others softrdma falls back to go-back-N.",
		explain: []string{"SEQUENCE_AHEAD"},
		run: func(ctx context.Context, r *Result) (err error) {
			if x.repeat, err = x.best(ctx, r, verbs.SelectiveRepeat, tenth); err != nil {
				return err
			}
			r.Charts = append(r.Charts, compare("sent again", x.none, x.goBack, x.repeat, sentAgain), compare("time", x.none, x.goBack, x.repeat, took))
			r.say(fmt.Sprintf("%s were sent again, instead of %s.", size(x.repeat.again()), size(x.goBack.again())))
			r.say(fmt.Sprintf("The times are the best of %d transfers each, between two devices that share this machine. On a longer path, what is sent again costs more.",
				transfers))
			return nil
		},
	}
}

func (x *lossLesson) lastPacket() step {
	return step{
		title: "The last packet is lost",
		text: "If nothing follows a lost packet, the receiver cannot see a gap. An adapter then waits for its timeout, 67 ms here. softrdma sends the last " +
			"packet again after about two round trips (tail loss probe).",
		explain: []string{"TAIL_PROBE", "ACK_TIMEOUT"},
		run: func(ctx context.Context, r *Result) error {
			c, err := x.transfer(ctx, r, verbs.SelectiveRepeat, message, faults.Rule{
				Name: "the last packet", Action: faults.Drop, Select: faults.Selector{Direction: faults.Sent, Opcode: []string{"rc write last"}, Count: 1},
			})
			if err != nil {
				return err
			}
			r.say(fmt.Sprintf("The transfer took %s, without a loss %s.", duration(c.time), duration(x.none.time)))
			return nil
		},
	}
}

func (x *lossLesson) often() step {
	return step{
		title: "One packet in a hundred",
		text: "Now each packet is lost with a probability of 1 %, in a longer transfer, first with go-back-N and then with selective repeat. Such a loss is " +
			"much for a data center, and little for a path through the internet.",
		run: func(ctx context.Context, r *Result) error {
			rule := faults.Rule{Name: "1 %", Action: faults.Drop, Select: faults.Selector{Direction: faults.Sent, Service: []string{"rc"}, Probability: .01}}
			back, err := x.transfer(ctx, newResult(), verbs.GoBackN, x.size, rule)
			if err != nil {
				return err
			}
			selective, err := x.transfer(ctx, r, verbs.SelectiveRepeat, x.size, rule)
			if err != nil {
				return err
			}
			bars := func(title string, of func(cost) (float64, string)) Chart {
				c := Chart{Title: title}
				for _, x := range []struct {
					name string
					cost
				}{{"go-back-N", back}, {"selective repeat", selective}} {
					v, text := of(x.cost)
					c.Bars = append(c.Bars, Bar{x.name, v, text})
				}
				return c
			}
			r.Charts = append(r.Charts, bars("sent again", sentAgain), bars("time", took))
			r.say(fmt.Sprintf("Go-back-N lost %d packets and sent %s again, selective repeat lost %d and sent %s again. What is sent again can be lost again.",
				back.lost, size(back.again()), selective.lost, size(selective.again())))
			r.say("This is why RoCE networks are made lossless with priority flow control (PFC), or use adapters with selective repeat.")
			return nil
		},
	}
}

// transfers is how often a message is sent to measure the time.
const transfers = 3

// message is how long the message is in which one packet is lost.
const message = 256 << 10

// connection is that of the transfers: a path MTU with which the message has many packets.
var connection = verbs.ConnectConfig{PathMTU: 1024}

var tenth = faults.Rule{
	Name: "the tenth packet", Action: faults.Drop, Select: faults.Selector{Direction: faults.Sent, Service: []string{"rc"}, Nth: 10},
}

func sentAgain(c cost) (float64, string) { return float64(c.again()), size(c.again()) }
func took(c cost) (float64, string)      { return c.time.Seconds(), duration(c.time) }

// compare compares the transfers of the lesson.
func compare(title string, none, goBack, repeat cost, of func(cost) (float64, string)) Chart {
	c := Chart{Title: title}
	for i, x := range []cost{none, goBack, repeat} {
		v, text := of(x)
		c.Bars = append(c.Bars, Bar{[]string{"no loss", "go-back-N", "selective repeat"}[i], v, text})
	}
	return c
}
