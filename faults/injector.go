package faults

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// An Injector has the rules of one device. Its methods may be called from any goroutine; now is any clock
// that does not go back, the same in all calls. The rules begin with the first call that says what time it is.
type Injector struct {
	// Changed, unless it is nil, is called when the rules have changed. The device sets it before others have the injector.
	Changed func()

	// Streams says that the device is one of iWARP. Set refuses rules that it cannot follow, see
	// Rules.CheckFor. The device sets it with Changed.
	Streams bool

	// Now, unless it is nil, is the clock of Command, and Struck learns what Command does, for the queue pair
	// of the host's connection. The device sets both with Changed.
	Now    func() time.Duration
	Struck func(qpn uint32, e *Effect)

	device string
	active atomic.Uint32 // classes of rules that there are

	mu      sync.Mutex
	rules   Rules
	matches []matcher
	began   bool
	start   time.Duration
	hits    []Hit
	total   uint64
}

// The classes of actions.
const (
	ofSent = 1 << iota
	ofReceived
	ofCalls
	ofCompletions
	ofTime
	ofConnections
	ofStreams
	ofCommands
)

// New returns the injector of a device. An error is an *Error.
func New(r Rules, device string) (*Injector, error) {
	x := &Injector{device: device}
	return x, x.Set(r)
}

// Set replaces the rules. Their counts, time and random streams begin again.
func (x *Injector) Set(r Rules) error { return x.change(r, false) }

// Add adds rules behind those that there are, which keep their counts, time and random streams. The
// seed of r is for the new rules. Their times count from when the first rules began.
func (x *Injector) Add(r Rules) error { return x.change(r, true) }

// Check returns the error with which Set and Add would refuse rules.
func (x *Injector) Check(r Rules) error {
	if err := r.Check(); err != nil {
		return err
	}
	return r.CheckFor(x.device, x.Streams)
}

func (x *Injector) change(r Rules, keep bool) error {
	if err := x.Check(r); err != nil {
		return err
	}
	x.set(r, keep)
	if x.Changed != nil {
		x.Changed()
	}
	return nil
}

func (x *Injector) set(r Rules, keep bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var kept []matcher
	if keep && x.active.Load() != 0 { // those that were cleared are gone
		kept = x.matches
		x.rules.Rules = append(slices.Clip(x.rules.Rules), r.Rules...)
	} else {
		x.rules = Rules{r.Seed, append([]Rule(nil), r.Rules...)}
		x.began, x.start, x.hits, x.total = false, 0, nil, 0
	}
	x.matches = make([]matcher, len(x.rules.Rules))
	copy(x.matches, kept)
	classes := uint32(0)
	h := fnv.New64a()
	_, _ = h.Write([]byte(x.device))
	for i := range x.rules.Rules {
		m := &x.matches[i]
		if i < len(kept) {
			m.rule = &x.rules.Rules[i]
			classes |= m.classes
			continue
		}
		m.init(&x.rules.Rules[i])
		m.random = rand.New(rand.NewPCG(r.Seed^h.Sum64(), uint64(i)+1))
		if d := m.rule.Select.Device; d != "" && d != x.device {
			m.classes = 0
		}
		classes |= m.classes
	}
	x.active.Store(classes)
}

// Clear removes the rules. What was hit stays listed until rules are set.
func (x *Injector) Clear() {
	x.mu.Lock()
	x.active.Store(0)
	for i := range x.matches {
		x.matches[i].classes = 0
	}
	x.mu.Unlock()
	if x.Changed != nil {
		x.Changed()
	}
}

// Rules returns the rules.
func (x *Injector) Rules() Rules {
	x.mu.Lock()
	defer x.mu.Unlock()
	return Rules{x.rules.Seed, append([]Rule(nil), x.rules.Rules...)}
}

// Active reports whether a rule may still apply.
func (x *Injector) Active() bool { return x.has(^uint32(0)) }

func (x *Injector) has(class uint32) bool { return x != nil && x.active.Load()&class != 0 }

// OnSent reports whether rules apply to packets that are sent, OnReceived to those received, OnCalls to calls,
// OnCompletions to completions, and OnTime at a time. A nil injector has no rules.
func (x *Injector) OnSent() bool { return x.has(ofSent) }

// OnReceived is described at OnSent.
func (x *Injector) OnReceived() bool { return x.has(ofReceived) }

// OnCalls is described at OnSent.
func (x *Injector) OnCalls() bool { return x.has(ofCalls) }

// OnCompletions is described at OnSent.
func (x *Injector) OnCompletions() bool { return x.has(ofCompletions) }

// OnTime is described at OnSent.
func (x *Injector) OnTime() bool { return x.has(ofTime) }

// A Verdict is what happens to a packet. Several rules may have hit it: the packet is lost if one says so.
type Verdict struct {
	Hits      int // rules that hit it
	Rule      int // the first of them
	Action    Action
	Match     uint64 // of that rule, from 1
	Drop      bool   // also for BlackHole
	End       bool   // the stream
	Duplicate bool
	Mark      bool
	Delay     time.Duration
	Behind    int // packets
	Rate      *Rule
	Corrupt   *Rule
	At        uint64        // random, where Corrupt changes a byte
	Answer    uint8         // syndrome of a responder's refusal, if it is not 0
	Stall     time.Duration // of the queue pair
	Slow      time.Duration // memory
}

// Packet decides about a packet. Of rules with a probability, each match draws.
func (x *Injector) Packet(now time.Duration, f *PacketFacts) (v Verdict) {
	class := uint32(ofSent)
	if f.Received {
		class = ofReceived
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	since := x.since(now)
	for i := range x.matches {
		m := &x.matches[i]
		if m.classes&class == 0 || !m.packet(f) {
			continue
		}
		if draw, hit := m.draw(since); hit {
			v.add(m, i, draw)
			x.hit(Hit{Rule: i, Name: m.rule.Name, Action: m.rule.Action, Time: since, Match: m.seen, packet: *f, of: class})
		}
	}
	return v
}

// add adds what the rule says.
func (v *Verdict) add(m *matcher, i int, draw uint64) {
	r := m.rule
	if v.Hits++; v.Hits == 1 {
		v.Rule, v.Action, v.Match = i, r.Action, m.seen
	}
	switch r.Action {
	case Drop, BlackHole:
		v.Drop = true
	case EndStream:
		v.End = true
	case Duplicate:
		v.Duplicate = true
	case Mark:
		v.Mark = true
	case Delay:
		v.Delay += time.Duration(r.Time)
		if r.Jitter > 0 {
			v.Delay += time.Duration(m.random.Int64N(int64(r.Jitter) + 1))
		}
	case Reorder:
		v.Behind += max(r.Behind, 1)
	case Rate:
		v.Rate = r
	case Corrupt:
		v.Corrupt, v.At = r, draw
	case Answer:
		v.Answer = uint8(m.syndrome)
	case Stall:
		v.Stall += time.Duration(r.Time)
	case SlowMemory:
		v.Slow += time.Duration(r.Time)
	}
}

// Change changes the bytes of a part of a packet that Corrupt names, or one at random.
func (v *Verdict) Change(part []byte) {
	for _, i := range v.Corrupt.Bytes {
		if i < len(part) {
			part[i] ^= 0xff
		}
	}
	if len(v.Corrupt.Bytes) == 0 && len(part) > 0 {
		part[v.At%uint64(len(part))] ^= 0xff
	}
}

// An Effect is what happens to a call, a completion or a connection, or at a time.
type Effect struct {
	Rule   int
	Action Action        // "" for nothing
	Time   time.Duration // of Withhold
	Status uint8         // of Complete: as ibv_wc_status
	Event  uint8         // of Event: as ibv_event_type
	Errno  syscall.Errno // of Fail
	Reason uint16        // of Reject
	Match  uint64        // of the rule, from 1

	NVMeStatus uint16 // of FailCommand, 0 if the command decides
}

// Call decides about a verbs call, by libibverbs' name of it. The first rule that hits decides.
func (x *Injector) Call(now time.Duration, name string) Effect {
	if !x.has(ofCalls) {
		return Effect{}
	}
	return x.object(now, ofCalls, Hit{What: name}, func(m *matcher) bool { return m.call(name) })
}

// Completion decides about a completion, before the program can see it.
func (x *Injector) Completion(now time.Duration, f CompletionFacts) Effect {
	if !x.has(ofCompletions) {
		return Effect{}
	}
	what := fmt.Sprintf("completion %d with status %d of queue pair 0x%06x", f.Opcode, f.Status, f.QPN)
	return x.object(now, ofCompletions, Hit{What: what}, func(m *matcher) bool { return m.completion(&f) })
}

// Connection decides about a connection request or reply from a peer.
func (x *Injector) Connection(now time.Duration, message, peer string) Effect {
	if !x.has(ofConnections) {
		return Effect{}
	}
	return x.object(now, ofConnections, Hit{What: message + " from " + peer}, func(m *matcher) bool { return m.connection(message, peer) })
}

// Due returns an effect of a rule for a time that has come, and when the next will come, a negative time for
// never. Callers repeat it until there is no effect.
func (x *Injector) Due(now time.Duration) (e Effect, next time.Duration) {
	if !x.has(ofTime) {
		return Effect{}, -1
	}
	e = x.object(now, ofTime, Hit{What: "device " + x.device}, func(m *matcher) bool { return m.due(now - x.start) })
	x.mu.Lock()
	defer x.mu.Unlock()
	next = -1
	for i := range x.matches {
		if t, ok := x.matches[i].next(now - x.start); ok && (next < 0 || t+x.start < next) {
			next = t + x.start
		}
	}
	return e, next
}

func (x *Injector) object(now time.Duration, class uint32, h Hit, selects func(*matcher) bool) (e Effect) {
	x.mu.Lock()
	defer x.mu.Unlock()
	since := x.since(now)
	for i := range x.matches {
		m := &x.matches[i]
		if m.classes&class == 0 || !selects(m) {
			continue
		}
		at := since
		if u := time.Duration(m.rule.Select.Until); class == ofTime && u > 0 {
			at = min(at, u) // a caller that is late misses nothing
		}
		if _, hit := m.draw(at); !hit {
			continue
		}
		h.Rule, h.Name, h.Action, h.Time, h.Match = i, m.rule.Name, m.rule.Action, since, m.seen
		x.hit(h)
		if e.Action == "" {
			e = m.effect
			e.Rule, e.Match = i, m.seen
		}
		if class == ofTime {
			break // one for each call
		}
	}
	return e
}

// since returns the time since the rules began.
func (x *Injector) since(now time.Duration) time.Duration {
	if !x.began {
		x.began, x.start = true, now
	}
	return now - x.start
}

// Parse reads rules as JSON. The error of a field is an *Error.
func Parse(b []byte) (r Rules, err error) {
	if err := json.Unmarshal(b, &r); err != nil {
		return Rules{}, fmt.Errorf("rules of faults: %w", err)
	}
	return r, r.Check()
}
