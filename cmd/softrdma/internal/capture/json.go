package capture

import (
	"bufio"
	"encoding/json"
	"time"

	"softrdma/internal/capture"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A packetRecord is a packet in JSON. Addresses include UDP ports.
type packetRecord struct {
	Type      string          `json:"type"` // "packet"
	Network   string          `json:"network"`
	Number    int             `json:"number"`
	Time      time.Time       `json:"time"`
	Src       string          `json:"src"`
	Dst       string          `json:"dst"`
	Direction string          `json:"direction,omitempty"`
	Opcode    string          `json:"opcode,omitempty"`
	QPN       uint32          `json:"qpn"`
	PSN       uint32          `json:"psn"`
	Headers   string          `json:"headers,omitempty"`
	Length    int             `json:"length"`  // from BTH to ICRC
	Payload   int             `json:"payload"` // without padding
	ICRC      string          `json:"icrc"`
	Findings  []findingRecord `json:"findings,omitempty"`
	Comments  []string        `json:"comments,omitempty"`
}

type findingRecord struct {
	Level    string  `json:"level"`
	Reason   string  `json:"reason,omitempty"`
	Expected *uint64 `json:"expected,omitempty"`
	Found    *uint64 `json:"found,omitempty"`
	Text     string  `json:"text"`
}

type summaryRecord struct {
	Type     string `json:"type"` // "summary"
	Captured int    `json:"captured"`
	capture.Totals
	Untracked   uint64             `json:"untracked"`
	Connections []connectionRecord `json:"connections"`
}

type connectionRecord struct {
	Src           string `json:"src"`
	Dst           string `json:"dst"`
	QPN           uint32 `json:"qpn"`
	PeerQPN       uint32 `json:"peer_qpn,omitempty"`
	Packets       uint64 `json:"packets"`
	Bytes         uint64 `json:"bytes"`
	Retransmitted uint64 `json:"retransmitted"`
	Missing       uint64 `json:"missing"`
	RNRs          uint64 `json:"rnrs"`
	NAKs          uint64 `json:"naks"`
	Malformed     uint64 `json:"malformed"`
	BadICRC       uint64 `json:"bad_icrc"`
	Marked        uint64 `json:"marked"`
}

// A jsonPrinter prints one object per line.
type jsonPrinter struct {
	out  *bufio.Writer
	enc  *json.Encoder
	live bool
}

func newJSONPrinter(out *bufio.Writer, live bool) *jsonPrinter {
	s := &jsonPrinter{out: out, enc: json.NewEncoder(out), live: live}
	s.enc.SetEscapeHTML(false)
	return s
}

func (s *jsonPrinter) packet(p *capture.Packet, findings []capture.Finding) error {
	src, dst := p.Endpoints()
	r := packetRecord{
		Type: "packet", Network: p.Network(), Number: p.Number, Time: p.Time.UTC(), Src: src, Dst: dst,
		Direction: [...]string{capture.Inbound: "in", capture.Outbound: "out"}[p.Direction],
		Length:    p.Length, Payload: len(p.Payload), Comments: p.Comments,
		ICRC: [...]string{capture.Unchecked: "unchecked", capture.Good: "good", capture.Bad: "bad"}[p.ICRC],
	}
	if len(p.Data) >= ib.BTHLen {
		r.Opcode, r.QPN, r.PSN, r.Headers = p.Opcode.String(), p.DestQPN, uint32(p.PSN), p.String()
	}
	for _, f := range findings {
		r.Findings = append(r.Findings, newFindingRecord(f))
	}
	err := s.enc.Encode(&r)
	if err == nil && s.live {
		err = s.out.Flush()
	}
	return err
}

func newFindingRecord(f capture.Finding) findingRecord {
	r := findingRecord{Level: f.Level.String(), Text: f.String()}
	if f.Detail.Reason != reason.None {
		r.Reason, r.Expected, r.Found = f.Detail.Reason.String(), &f.Detail.Expected, &f.Detail.Found
	}
	return r
}

func (s *jsonPrinter) summary(sum *capture.Summary) error {
	r := summaryRecord{
		Type: "summary", Captured: sum.Frames, Totals: sum.Totals(), Untracked: sum.Untracked, Connections: []connectionRecord{},
	}
	for _, c := range sum.Connections {
		src, dst := c.Endpoints()
		r.Connections = append(r.Connections, connectionRecord{
			src, dst, c.QPN, c.PeerQPN, c.Packets, c.Bytes, c.Retransmitted, c.Missing, c.RNRs, c.NAKs,
			c.Malformed, c.BadICRC, c.Marked,
		})
	}
	return s.enc.Encode(&r)
}
