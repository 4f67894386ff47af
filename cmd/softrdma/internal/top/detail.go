package top

import (
	"fmt"
	"strings"

	"github.com/mattn/go-runewidth"
)

// addDetail adds all of the open queue pair.
func (m *model) addDetail(s *screen) {
	q := m.opened()
	if q == nil {
		s.add(head, fmt.Sprintf("queue pair %s of %s has gone", qpn(m.open.QPN), m.open.Device))
	} else {
		state := ""
		if m.paused {
			state = "  paused"
		}
		s.add(head, fmt.Sprintf("queue pair %s of %s, %s (%d)%s", qpn(q.Number), q.Of.Name, q.Program, q.OwnerPID, state))
		for _, text := range q.attributes() {
			s.add(plain, text)
		}
	}
	var others, packets []string
	for _, text := range m.history {
		text = strings.Join(strings.Fields(text), " ")
		if kind := strings.Fields(text); len(kind) > 1 && (kind[1] == "sent" || kind[1] == "received") {
			packets = append(packets, text)
		} else {
			others = append(others, wrap(text, s.width-2)...)
		}
	}
	room := max(m.height-len(s.lines)-5, 2)
	high := min(len(others), room/2)
	if len(packets) < room-high {
		high = min(len(others), room-len(packets))
	}
	s.add(plain, "")
	s.add(head, "changes of state, refusals and failed completions")
	addHistory(s, others, 0, high, m.failed)
	s.add(head, "packets")
	addHistory(s, packets, m.scroll, max(m.height-len(s.lines)-1, 1), m.failed)
	s.fill(m.height - 1)
	s.add(faint, "esc back  up, down older and newer packets  space pause  ? help  q quit")
}

func addHistory(s *screen, lines []string, above, limit int, failed string) {
	switch {
	case failed != "":
		s.add(alarm, "  "+failed)
	case len(lines) == 0:
		s.add(faint, "  none that the flight recorder still has")
	}
	for _, text := range tail(lines, above, limit) {
		s.add(plain, "  "+text)
	}
}

// wrap returns a text in lines of at most so many columns, at words.
func wrap(text string, columns int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case runewidth.StringWidth(line)+1+runewidth.StringWidth(word) <= columns:
			line += " " + word
		default:
			lines = append(lines, line)
			line = "    " + word
		}
	}
	return append(lines, line)
}

// attributes returns what a queue pair is and what it has measured.
func (r *qpReport) attributes() []string {
	peer := "no peer"
	if r.Peer != "" {
		peer = fmt.Sprintf("peer %s QP %s", r.Peer, qpn(r.PeerQP))
	}
	srq := ""
	if r.SRQ != 0 {
		srq = fmt.Sprintf("  SRQ %d", r.SRQ)
	}
	lines := []string{
		fmt.Sprintf("  %s  %s  %s  path MTU %d", r.Type, r.State, peer, r.PathMTU),
		fmt.Sprintf("  PD %d  send CQ %d  receive CQ %d%s  first PSN sent %d, received %d", r.PD, r.SendCQ, r.RecvCQ, srq, r.SQPSN, r.RQPSN),
		fmt.Sprintf("  %d sends posted  %d receives posted", r.Sends, r.Receives),
	}
	m, v := r.Measured, r.rates()
	if m == nil {
		return append(lines, "  RX "+bytesRate(r.received())+", no other measurements: not a reliable connection, or it had no packets yet")
	}
	window := "window " + size(m.Window)
	switch {
	case m.Lossless:
		window = "nothing can be lost on the path"
	case m.RNRWait:
		window += ", waits for a receive of the peer (RNR)"
	}
	return append(lines,
		fmt.Sprintf("  TX %s, %s packets/s  RX %s, %s packets/s", bytesRate(v.SentBytes), count(v.SentPackets), bytesRate(r.received()), count(v.ReceivedPackets)),
		fmt.Sprintf("  RTT %s  %d packets in flight  %s", trip(m.RoundTrip), m.InFlight, window),
		fmt.Sprintf("  %d retransmissions (%s/s)  in a row: %d retries, %d RNR retries", m.Retransmitted, count(v.Retransmissions), m.Retries, m.RNRRetries))
}
