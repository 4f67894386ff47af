package lessons

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"softrdma/verbs"
)

var zeroCopy = lesson{
	id: "zero-copy", title: "What zero copy means",
	summary: "Who copies the bytes of a message: a program with buffers of its own between data and network, and one that registers its data.",
	begin:   beginZeroCopy,
}

// A copyLesson is the state of the lesson.
type copyLesson struct {
	*tour
	p *pair

	staged, direct moved
}

func beginZeroCopy(t *tour) []step {
	x := &copyLesson{tour: t}
	return []step{x.register(), x.withCopies(), x.withoutCopies(), x.ownership()}
}

func (x *copyLesson) register() step {
	return step{
		title: "Register the data",
		text: "A device may read and write only memory that is registered. Registration checks the program's rights, keeps the pages in memory " +
			"(pins them) and gives the region its keys: L_Key for own work requests, R_Key for peers. It takes longer than a small message, so " +
			"programs register once and use the memory many times.",
		explain: []string{"LOCAL_KEY", "KEY_UNKNOWN"},
		run: func(ctx context.Context, r *Result) (err error) {
			since := time.Now()
			if x.p, err = x.newPair(ctx, memory, 2*x.size, verbs.QPConfig{}); err != nil {
				return err
			}
			opened := time.Since(since)
			if err = x.p.connect(verbs.ConnectConfig{}, verbs.ConnectConfig{}); err != nil {
				return err
			}
			more := bytes.Repeat([]byte{1}, x.size)
			since = time.Now()
			extra, err := x.p.a.pd.RegisterMemory(more, everything)
			if err != nil {
				return err
			}
			took := time.Since(since)
			if err = extra.Deregister(); err != nil {
				return err
			}
			r.figure("region of A", fmt.Sprintf("0x%x, %s, L_Key 0x%x", x.p.a.mr.Addr(), size(uint64(x.p.a.mr.Len())), x.p.a.mr.LKey()))
			r.figure("region of B", fmt.Sprintf("0x%x, %s, R_Key 0x%x", x.p.b.mr.Addr(), size(uint64(x.p.b.mr.Len())), x.p.b.mr.RKey()))
			r.figure("one more region", fmt.Sprintf("%s, registered in %s", size(uint64(x.size)), duration(took)))
			r.figure("both ends opened in", duration(opened))
			r.say("An adapter's driver would also pin each page and give the adapter their physical addresses. softrdma is a program, and needs neither.")
			return x.p.draw(r, time.Now())
		},
	}
}

func (x *copyLesson) withCopies() step {
	return step{
		title: "With copies",
		text: "Many programs have registered buffers beside their data. A copies a piece of its data into such a buffer and writes it to a buffer of B, " +
			"out of which B copies it. The device moves the same bytes, but the programs copy each byte twice.",
		run: func(ctx context.Context, r *Result) (err error) {
			if x.staged, err = x.p.best(ctx, r, x.p.staged, x.size); err != nil {
				return err
			}
			r.measured(x.staged)
			r.say("“Copied by the programs” counts the bytes that A and B copied themselves. A copy costs processor time, memory bandwidth and room in the caches " +
				"that the programs need for other things.")
			return nil
		},
	}
}

func (x *copyLesson) withoutCopies() step {
	return step{
		title: "Without copies",
		text: "Now the data itself is registered, on both sides. A posts WRITEs that name the data, and where it belongs in B's memory. The work request has only " +
			"addresses: the device fetches the bytes and places them.",
		explain: []string{"KEY_BOUNDS"},
		run: func(ctx context.Context, r *Result) (err error) {
			if x.direct, err = x.p.best(ctx, r, x.p.direct, x.size); err != nil {
				return err
			}
			r.measured(x.direct)
			r.figure("B's data is at", fmt.Sprintf("0x%x", x.p.b.mr.Addr()))
			r.Charts = append(r.Charts,
				Chart{"copied by the programs", []Bar{{"with copies", float64(x.staged.copied), size(x.staged.copied)}, {"zero copy", float64(x.direct.copied), size(x.direct.copied)}}},
				Chart{"time", []Bar{{"with copies", x.staged.time.Seconds(), duration(x.staged.time)}, {"zero copy", x.direct.time.Seconds(), duration(x.direct.time)}}})
			r.say("The first packet of each WRITE names the address (VA) at which its bytes belong: B's own data, not a buffer. That is zero copy: no program " +
				"copies the bytes on their way from one program's data to the other's.")
			r.say("An adapter moves the bytes by DMA, without the processor. softrdma does the adapter's work with the processor: it copies once, in " +
				"place of the DMA. So the copies that zero copy saves are those of the programs, here as with an adapter.")
			r.say(fmt.Sprintf("The times are the best of %d runs each.", runs))
			return nil
		},
	}
}

func (x *copyLesson) ownership() step {
	return step{
		title: "What zero copy asks of a program",
		text: "Without a copy the device uses the program's own memory: from the post of a work request to its completion, that memory belongs to the device. " +
			"A program that changes it earlier sends either bytes. This step posts a WRITE, waits for its completion, and only then changes the data.",
		explain: []string{"IBV_WC_LOC_PROT_ERR"},
		run: func(ctx context.Context, r *Result) error {
			copy(x.p.a.mr.Bytes(), "first ")
			since := time.Now()
			if err := x.p.post(verbs.OpWrite, 6); err != nil {
				return err
			}
			posted := time.Since(since)
			if _, err := x.p.a.good(ctx); err != nil {
				return err
			}
			done := time.Since(since)
			copy(x.p.a.mr.Bytes(), "second")
			if err := x.p.draw(r, since); err != nil {
				return err
			}
			r.figure("post returned after", duration(posted))
			r.figure("completion after", duration(done))
			r.figure("A's memory now", fmt.Sprintf("%q", x.p.a.mr.Bytes()[:6]))
			r.figure("B's memory", fmt.Sprintf("%q", x.p.b.mr.Bytes()[:6]))
			r.say(fmt.Sprintf("Between %s and %s the memory was the device's, although the post had returned. The same is true of receives: their memory "+
				"may change at any time until they complete.", duration(posted), duration(done)))
			return nil
		},
	}
}

// measured shows what moving data has taken.
func (r *Result) measured(m moved) {
	r.figure("data moved", size(uint64(m.bytes)))
	r.figure("copied by the programs", size(m.copied))
	r.figure("time", duration(m.time))
	r.figure("throughput", size(uint64(float64(m.bytes)/max(m.time.Seconds(), 1e-9)))+"/s")
}

// A moved is what moving data has taken.
type moved struct {
	bytes  int
	copied uint64 // by the programs
	time   time.Duration
}

const (
	slots = 16       // buffers of a program with copies
	slot  = 64 << 10 // bytes of one, and of a WRITE
)

// runs is how often data is moved to measure the time.
const runs = 5

// best moves data several times and returns what the fastest run took. The ladder is of a short run after that.
func (p *pair) best(ctx context.Context, r *Result, move func(context.Context, int) (moved, error), n int) (best moved, err error) {
	for i := range runs {
		m, err := move(ctx, n)
		if err != nil {
			return best, err
		}
		if i == 0 || m.time < best.time {
			best = m
		}
	}
	since := time.Now()
	if _, err = move(ctx, slots*drawn); err != nil {
		return best, err
	}
	return best, p.draw(r, since)
}

// drawn is the length of a message in the ladder.
const drawn = 12 << 10

// staged moves data through buffers, which are the second half of each region.
func (p *pair) staged(ctx context.Context, n int) (m moved, err error) {
	if len(p.data[0]) < n {
		for i := range p.data {
			p.data[i] = bytes.Repeat([]byte{byte(i)}, n) // the pages are there before the time is measured
		}
	}
	piece := min(slot, n/slots)
	half := p.a.mr.Len() / 2
	since := time.Now()
	for i := range n / piece {
		at := half + i%slots*piece
		m.copied += uint64(copy(p.a.mr.Bytes()[at:at+piece], p.data[0][i*piece:]))
		if err = p.write(ctx, at, piece); err != nil {
			return m, err
		}
		m.copied += uint64(copy(p.data[1][i*piece:], p.b.mr.Bytes()[at:at+piece]))
		m.bytes += piece
	}
	m.time = time.Since(since)
	return m, nil
}

// direct moves data from the first half of A's region to that of B's.
func (p *pair) direct(ctx context.Context, n int) (m moved, err error) {
	piece := min(slot, n/slots)
	since := time.Now()
	for i := range n / piece {
		if err = p.write(ctx, i*piece, piece); err != nil {
			return m, err
		}
		m.bytes += piece
	}
	m.time = time.Since(since)
	return m, nil
}

// write writes a part of A's region to the same place of B's, and waits until it is there.
func (p *pair) write(ctx context.Context, at, n int) error {
	err := p.a.qp.PostSend(verbs.SendWR{
		Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{p.a.mr.SGE(at, n)}, RemoteAddr: p.b.mr.Addr() + uint64(at), RKey: p.b.mr.RKey(),
	})
	if err == nil {
		_, err = p.a.good(ctx)
	}
	return err
}
