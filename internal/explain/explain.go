// Package explain knows what every refusal means: each named reason, each
// completion status, each acknowledge syndrome and each asynchronous event,
// with its cause, where to look, what usually mends it and the clause that
// wants it so; and what each number means that messages and packets have.
//
// It owns the texts and the search in them. It never decides anything: no
// package that handles packets imports it.
package explain

import (
	"fmt"
	"strings"

	"softrdma/internal/reason"
)

// A Kind is what an entry explains.
type Kind string

// The kinds.
const (
	Reason   Kind = "reason"
	Status   Kind = "completion status"
	Syndrome Kind = "acknowledge syndrome"
	Event    Kind = "asynchronous event"
)

// An Entry explains one name.
type Entry struct {
	Kind    Kind
	Name    string
	Number  int    // as programs and packets carry it; of a reason its vendor_err, which another version numbers otherwise
	Meaning string // the sentence; in reasons "…" stands for the numbers expected and found
	Cause   string // what brings it about
	Look    string // where to look
	Remedy  string // what usually mends it
	Clause  string // of the specification
	See     []string
}

// String prints the entry on several lines.
func (e Entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", e.Name, e.Label())
	number := ""
	if e.Kind == Reason {
		number = fmt.Sprintf("%d as vendor_err of completions, in this version", e.Number)
	}
	for _, f := range []struct{ name, text string }{
		{"meaning", e.Meaning}, {"cause", e.Cause}, {"look at", e.Look}, {"remedy", e.Remedy}, {"clause", e.Clause}, {"number", number},
		{"see also", strings.Join(e.See, ", ")},
	} {
		if f.text != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", f.name+":", f.text)
		}
	}
	return b.String()
}

// Label is the kind, with the number as it is usually printed. A reason's changes
// with versions and is left out.
func (e *Entry) Label() string {
	if digits, ok := hexadecimal[e.Kind]; ok {
		return fmt.Sprintf("%s %#0*x", e.Kind, digits, e.Number)
	}
	if e.Kind == Reason {
		return string(e.Kind)
	}
	return fmt.Sprintf("%s %d", e.Kind, e.Number)
}

// text is what an entry adds to its name.
type text struct{ cause, look, remedy, clause string }

// All gives every entry that has a cause and a remedy: reasons, statuses,
// syndromes, events. What a number finds besides is in Lookup.
func All() []Entry {
	all := make([]Entry, 0, int(reason.Count)+64)
	for r := reason.None + 1; r < reason.Count; r++ {
		e := Entry{Kind: Reason, Name: r.String(), Number: int(r), Meaning: r.Sentence()}
		for _, group := range []map[reason.Reason]text{packets, responder, requester, objects, sockets, connections, iwarp, clients} {
			if t, ok := group[r]; ok {
				e.Cause, e.Look, e.Remedy, e.Clause = t.cause, t.look, t.remedy, t.clause
			}
		}
		all = append(all, e)
	}
	// A status refers to the reasons that give it, and they to the status.
	done := statuses()
	for s, t := range statusTexts {
		for _, r := range t.see {
			all[r-1].See = append(all[r-1].See, done[s].Name)
		}
	}
	all = append(all, done...)
	all = append(all, syndromes()...)
	return append(all, events()...)
}
