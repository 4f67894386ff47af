package explain

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"softrdma/internal/cmid"
)

// A Finding is what lines of a log say.
type Finding struct {
	Entries []Entry
	Text    string // of the first of the lines, without control characters
	Lines   []int  // numbers of the first lines that say it, at most linesKept, from 1
	Count   int    // of all lines that say it
}

const (
	linesKept   = 5
	findingsMax = 1000
	lineMax     = 4 << 10 // bytes of a line that are looked at
)

// about matches lines that may be about RDMA. Other lines are not looked at: their numbers mean something else.
var about = compiled(`(?i)rdma|\bcm event|ibv_|infiniband|verbs|openfabrics|openib|libfabric|fi_getinfo|\bmlx[45]|rxe|siw|\bib[ _:]|net/ib|ucx|\buct_|wr_id|wrid|syndrom|vend(or)?[ _]?err|\bsynd\b|\bcqe?\b|\bqpn?\b|\bwc\b|\bmr\b|\bgid\b|nvme|iser|\bsrp|retry count|\bnak\b|memlock|locked memory|couldn't|work queue error`)

// Log reads a log, a line at a time, and returns what its lines say about failures of RDMA, in the order of their first
// lines. It reads on after findingsMax findings, but counts only those. lines is the number of lines.
func Log(r io.Reader) (findings []*Finding, lines int, err error) {
	x := index{all: all(), more: numbers(), findings: make(map[string]*Finding)}
	b := bufio.NewReaderSize(r, lineMax)
	for {
		text, rest, err := b.ReadLine()
		if err == io.EOF {
			return x.order, lines, nil
		}
		if err != nil {
			return x.order, lines, fmt.Errorf("line %d: %w", lines+1, err)
		}
		lines++
		x.line(string(text), lines)
		for rest && err == nil {
			_, rest, err = b.ReadLine()
		}
	}
}

// An index has the findings of a log by the names of their entries.
type index struct {
	all, more []Entry
	findings  map[string]*Finding
	order     []*Finding
}

func (x *index) line(text string, number int) {
	if !about().MatchString(text) {
		return
	}
	found := failures(inLine(text, x.all, x.more, true))
	if len(found) == 0 {
		return
	}
	var key strings.Builder
	for _, e := range found {
		key.WriteString(string(e.Kind) + "\x00" + e.Name + "\x00")
	}
	f := x.findings[key.String()]
	if f == nil {
		if len(x.order) == findingsMax {
			return
		}
		f = &Finding{Entries: found, Text: printable(text)}
		x.findings[key.String()], x.order = f, append(x.order, f)
	}
	if f.Count++; len(f.Lines) < linesKept {
		f.Lines = append(f.Lines, number)
	}
}

// failures keeps the entries that report a failure. A line that has a status needs no vendor error beside it, and
// one with the error of a call no errno.
func failures(all []Entry) []Entry {
	has := func(k Kind) bool { return slices.ContainsFunc(all, func(e Entry) bool { return e.Kind == k }) }
	known := has(Status) || has(Event)
	called := has(CallError) || has(CMEvent)
	return slices.DeleteFunc(all, func(e Entry) bool {
		switch e.Kind {
		case Reason, Event, Reject, Terminate, CallError, Message:
			_, other := vendorStatuses[uint64(e.Number)] // an adapter's number, not that of one of softrdma's reasons
			return e.Kind == Reason && other && known && has(VendorError)
		case Status:
			return e.Number == 0
		case Syndrome:
			return e.Name == "ACK"
		case CMEvent:
			return cmEventAdvice[cmid.EventType(e.Number)].cause == ""
		case VendorError:
			return known
		case SystemError:
			return called
		}
		return true
	})
}

// printable replaces control characters, which a log may have for a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}
