package faults

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/iwarp"
	"softrdma/internal/wire/mad"
)

// A matcher is a rule with its names looked up, its counts and its random stream.
type matcher struct {
	rule    *Rule
	classes uint32
	random  *rand.Rand
	seen    uint64 // matches
	struck  uint64 // hits

	peer      netip.Addr
	services  uint8 // a bit for each transport
	opcodes   [256]bool
	anyOpcode bool
	nak, ack  bool
	cm, mad   bool
	terminate bool
	messages  []mad.AttributeID
	syndrome  ib.Syndrome
	effect    Effect
}

func (m *matcher) init(r *Rule) {
	s := &r.Select
	m.rule = r
	m.classes = classesOf(r)
	if s.Peer != "" {
		m.peer = netip.MustParseAddr(s.Peer).Unmap()
	}
	for _, n := range s.Service {
		m.services |= 1 << services[n]
	}
	m.anyOpcode = len(s.Opcode) == 0
	for _, n := range s.Opcode {
		m.addOpcode(n)
	}
	for _, n := range s.Message {
		m.messages = append(m.messages, mad.AttrREQ+mad.AttributeID(slices.Index(messages, n)))
	}
	if m.syndrome = answers[r.Answer]; m.syndrome.IsRNR() {
		m.syndrome |= ib.Syndrome(timerOf(time.Duration(r.Time)))
	}
	m.effect = Effect{
		Action: r.Action, Time: time.Duration(r.Time), Errno: errnos[r.Errno], Reason: r.Reason,
		Status: uint8(max(slices.Index(statuses, r.Status), 0)), Event: uint8(max(slices.Index(events, r.Event), 0)),
		NVMeStatus: r.NVMeStatus,
	}
	if m.effect.Reason == 0 {
		m.effect.Reason = uint16(mad.RejectConsumer)
	}
}

// timerOf returns the code of the shortest RNR timer that is at least d.
func timerOf(d time.Duration) (code uint8) {
	for c := uint8(1); c < 32; c++ {
		if ib.RNRTimer(c) >= d {
			return c
		}
	}
	return 0 // the longest
}

// classesOf returns what a rule applies to.
func classesOf(r *Rule) uint32 {
	switch r.Action {
	case Answer, Stall, SlowMemory:
		return ofReceived
	case Complete, Withhold:
		return ofCompletions
	case Fail:
		return ofCalls
	case Reject:
		return ofConnections
	case Event, PortDown, PortUp:
		return ofTime
	case FailCommand, DelayCommand, LoseCompletion, ResetController, LosePath:
		return ofCommands
	}
	switch r.Select.Direction {
	case Sent:
		return ofSent
	case Received:
		return ofReceived
	}
	if r.Action == Rate {
		return ofSent
	}
	return ofSent | ofReceived
}

func (m *matcher) addOpcode(name string) {
	if o, ok := opcodes[name]; ok {
		m.opcodes[o] = true
		return
	}
	switch name {
	case familyNAK:
		m.nak = true
	case familyACK:
		m.ack = true
	case familyCM:
		m.cm = true
	case familyMAD:
		m.mad = true
	case familyTerminate:
		m.terminate = true
	default:
		for o := range m.opcodes {
			if i := ib.Opcode(o).Info(); i != nil && slices.Contains(families[name], i.Kind) {
				m.opcodes[o] = true
			}
		}
	}
}

// packet reports whether the rule selects a packet.
func (m *matcher) packet(f *PacketFacts) bool {
	s := &m.rule.Select
	switch {
	case m.peer.IsValid() && m.peer != f.Peer.Unmap(), s.QP != 0 && s.QP != f.QPN, f.Size < s.MinSize,
		s.MaxSize > 0 && f.Size > s.MaxSize, m.services != 0 && m.services>>(f.service()&7)&1 == 0,
		len(s.PSN) > 0 && !slices.Contains(s.PSN, f.psn), len(m.messages) > 0 && !slices.Contains(m.messages, f.message),
		m.rule.Action == BlackHole && f.Size <= m.rule.Above, !m.answers(f):
		return false
	}
	return m.anyOpcode || m.opcodes[f.opcode] || m.family(f)
}

// answers reports whether the packet is one that the action is for: responders answer requests, and refuse a
// message at its first packet. A WRITE with immediate data takes its receive at the last one (IBTA 9.7.5.2.8).
func (m *matcher) answers(f *PacketFacts) bool {
	i := f.opcode.Info()
	switch m.rule.Action {
	case Answer:
		if i == nil || f.opcode.Transport() != ib.RC && f.opcode.Transport() != ib.XRC {
			return false
		}
		last := m.syndrome.IsRNR() && i.Kind == ib.KindWrite && i.Headers&ib.HasImmDt != 0
		return request(i) && (i.First || last)
	case SlowMemory:
		return i != nil && request(i)
	}
	return true
}

// request reports whether a packet is a request, which a responder answers.
func request(i *ib.Info) bool { return i.Asks() || i.Kind == ib.KindSend || i.Kind == ib.KindWrite }

// service is that of the opcode. iWARP's queue pairs are those of RC to programs.
func (f *PacketFacts) service() ib.Transport {
	if f.stream {
		return ib.RC
	}
	return f.opcode.Transport()
}

// family reports whether the packet is of a family that its opcode does not tell.
func (m *matcher) family(f *PacketFacts) bool {
	if f.stream {
		return m.terminate && f.rdmap == iwarp.Terminate
	}
	acknowledges := f.opcode.Info() != nil && f.opcode.Info().Kind == ib.KindAcknowledge
	return m.nak && acknowledges && !f.syndrome.IsACK() || m.ack && (acknowledges && f.syndrome.IsACK() || f.opcode == ib.RCSelectiveAck) ||
		m.cm && f.message != 0 || m.mad && f.dest <= managerQPN && f.opcode.Transport() == ib.UD
}

func (m *matcher) call(name string) bool {
	return len(m.rule.Select.Call) == 0 || slices.Contains(m.rule.Select.Call, name)
}

// receiveBit is that of opcodes of receives in ibv_wc_opcode.
const receiveBit = 128

func (m *matcher) completion(f *CompletionFacts) bool {
	s := &m.rule.Select
	op := int(f.Opcode)
	if op >= receiveBit {
		op = op - receiveBit + slices.Index(completions, "recv")
	}
	named := func(list []string, all []string, i int) bool {
		return len(list) == 0 || i < len(all) && slices.Contains(list, all[i])
	}
	return (s.QP == 0 || s.QP == f.QPN) && f.Size >= s.MinSize && (s.MaxSize == 0 || f.Size <= s.MaxSize) &&
		named(s.Completion, completions, op) && named(s.Status, statuses, int(f.Status))
}

func (m *matcher) connection(message, peer string) bool {
	s := &m.rule.Select
	a, err := netip.ParseAddr(peer)
	return (len(s.Message) == 0 || slices.Contains(s.Message, strings.ToUpper(message))) &&
		(!m.peer.IsValid() || err == nil && m.peer == a.Unmap())
}

// next returns the time since the beginning at which a rule of time hits next, and false for never.
func (m *matcher) next(time.Duration) (at time.Duration, ok bool) {
	s := &m.rule.Select
	if m.classes&ofTime == 0 || s.Count == 0 && m.seen > 0 || s.Count > 0 && m.struck >= s.Count {
		return 0, false
	}
	at = time.Duration(s.From) + time.Duration(m.seen)*m.period()
	return at, s.Until == 0 || at <= time.Duration(s.Until)
}

// period is the time between hits of a rule of time that hits more than once: it repeats over its window.
func (m *matcher) period() time.Duration {
	s := &m.rule.Select
	if s.Count < 2 || s.Until == 0 {
		return 0
	}
	return time.Duration(s.Until-s.From) / time.Duration(s.Count)
}

func (m *matcher) due(since time.Duration) bool {
	at, ok := m.next(since)
	return ok && at <= since
}

// draw counts a match and reports whether the rule hits it. It draws one number of the stream.
func (m *matcher) draw(since time.Duration) (draw uint64, hit bool) {
	s := &m.rule.Select
	if since < time.Duration(s.From) || s.Until > 0 && since > time.Duration(s.Until) {
		return 0, false
	}
	m.seen++
	draw = m.random.Uint64()
	switch {
	case s.Nth > 0 && m.seen != s.Nth, s.Every > 0 && m.seen%s.Every != 0, s.Count > 0 && m.struck >= s.Count,
		s.Probability > 0 && float64(draw>>11)/(1<<53) >= s.Probability:
		return draw, false
	}
	m.struck++
	return draw, true
}
