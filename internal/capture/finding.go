package capture

import (
	"fmt"
	"strings"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A Level is the severity of a finding.
type Level uint8

// The levels.
const (
	Note    Level = iota // notable, but as the protocol requires
	Warning              // the network lost, duplicated or delayed packets
	Fault                // a peer or the network violated the protocol
)

// String returns the name of the level.
func (l Level) String() string { return [...]string{"note", "warning", "fault"}[min(l, Fault)] }

// A Finding is a remark about a packet.
type Finding struct {
	Level  Level
	Detail reason.Detail // its reason is None if none fits
	Text   string        // an explanation that replaces the reason's sentence, if not empty
}

// String returns the reason's name and the explanation, or the reason's sentence if
// there is no explanation.
func (f Finding) String() string {
	switch {
	case f.Detail.Reason == reason.None:
		return f.Text
	case f.Text == "":
		return f.Detail.Reason.String() + ": " + f.Detail.String()
	}
	return f.Detail.Reason.String() + ": " + f.Text
}

// Line formats a packet and its findings on one line: number, time since start,
// addresses, headers, length, and result of the checks.
func Line(p *Packet, start time.Time, findings []Finding) string {
	b := fmt.Appendf(nil, "%6d", p.Number)
	if p.Part != 0 {
		b = fmt.Appendf(b, ".%d", p.Part)
	}
	src, dst := p.Endpoints()
	b = fmt.Appendf(b, " %11.6f %v > %v ", p.Time.Sub(start).Seconds(), src, dst)
	if len(p.Data) < ib.BTHLen {
		b = fmt.Appendf(b, "%d bytes", p.Length)
	} else {
		b = p.AppendLine(b)
	}
	if p.ECN() == 3 {
		b = append(b, " CE"...)
	}
	switch {
	case p.ICRC == Bad:
		b = append(b, " [ICRC bad]"...)
	case p.ICRC == Unchecked:
		b = append(b, " [ICRC unchecked]"...)
	case len(findings) == 0:
		b = append(b, " [ok]"...)
	}
	for _, f := range findings {
		b = fmt.Appendf(b, " [%v: %v]", f.Level, f)
	}
	for _, c := range p.Comments {
		b = fmt.Appendf(b, " {%s}", Printable(c))
	}
	return string(b)
}

// Printable replaces control characters, so that comments in a file cannot send
// escape sequences to the terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// malformed returns the reason, with its numbers, for the fault that Parse found.
func malformed(p *Packet) reason.Detail {
	n := uint64(p.Length)
	switch p.Fault {
	case ib.Short:
		want := uint64(ib.BTHLen + ib.ICRCLen)
		if i := p.Opcode.Info(); i != nil && len(p.Data) >= ib.BTHLen {
			want = uint64(i.Len + ib.ICRCLen)
		}
		if p.Truncated {
			n = uint64(len(p.Data))
		}
		return reason.Detail{Reason: reason.PacketShort, Expected: want, Found: n}
	case ib.BadOpcode:
		return reason.Detail{Reason: reason.PacketOpcode, Expected: opcodes, Found: uint64(p.Opcode)}
	case ib.BadVersion:
		return reason.Detail{Reason: reason.PacketVersion, Expected: 0, Found: uint64(p.Version)}
	case ib.BadPad:
		if n%4 == 0 {
			n = uint64(p.Pad)
		}
		return reason.Detail{Reason: reason.PacketPad, Expected: 4, Found: n}
	case ib.ExtraPayload:
		return reason.Detail{Reason: reason.PacketExtraPayload, Expected: 0, Found: uint64(len(p.Payload))}
	}
	return reason.Detail{}
}

// opcodes is the number of defined opcodes.
var opcodes = func() (n uint64) {
	for o := range 256 {
		if ib.Opcode(o).Info() != nil {
			n++
		}
	}
	return n
}()
