// Package explain explains errors: every named reason, completion status,
// acknowledge syndrome and asynchronous event has its meaning, its cause, where
// to look, the usual remedy and the clause of the specification. It also has the
// meaning of the numbers that packets, messages and programs print, such as
// opcodes and reject reasons.
//
// The package owns the texts and the search in them. It decides nothing: no
// package that handles packets imports it.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"sync"

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
	Mistake  Kind = "mistake that softrdma exec --sanitize finds"
)

// An Entry explains one name.
type Entry struct {
	Kind    Kind
	Name    string
	Number  int    // as programs and packets carry it; for a reason its vendor_err
	Meaning string // one sentence; in reasons "…" stands for the numbers expected and found
	Cause   string
	Look    string // where to look
	Remedy  string
	Clause  string // of the specification
	See     []string
}

// String returns the entry on several lines.
func (e Entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", e.Name, e.Label())
	number := ""
	if e.Kind == Reason {
		number = fmt.Sprintf("%d as vendor_err of completions", e.Number)
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

// Label returns the kind and the number as it is usually printed. It omits the
// number of a reason, which changes with versions; a message has none.
func (e *Entry) Label() string {
	if digits, ok := hexadecimal[e.Kind]; ok {
		return fmt.Sprintf("%s %#0*x", e.Kind, digits, e.Number)
	}
	if e.Kind == Reason || e.Kind == Message || e.Kind == Mistake || e.Number == noNumber {
		return string(e.Kind)
	}
	return fmt.Sprintf("%s %d", e.Kind, e.Number)
}

// A text explains one name.
type text struct{ cause, look, remedy, clause string }

// texts holds the texts of each room of reasons.
var texts []map[reason.Reason]text

// explain adds the texts of a room.
func explain(room map[reason.Reason]text) struct{} {
	texts = append(texts, room)
	return struct{}{}
}

// All returns every entry that has a cause and a remedy: reasons, statuses,
// syndromes and events. Lookup also finds the entries for other numbers.
func All() []Entry { return slices.Clone(all()) }

// The tables are made once: a log may ask for each of its lines. They are never changed.
var (
	all          = sync.OnceValue(makeAll)
	numbers      = sync.OnceValue(makeNumbers)
	statuses     = sync.OnceValue(makeStatuses)
	syndromes    = sync.OnceValue(makeSyndromes)
	events       = sync.OnceValue(makeEvents)
	systemErrors = sync.OnceValue(makeSystemErrors)
)

func makeAll() []Entry {
	var all []Entry
	at := make(map[reason.Reason]int)
	for r := range reason.All() {
		e := Entry{Kind: Reason, Name: r.String(), Number: int(r), Meaning: r.Sentence()}
		for _, room := range texts {
			if t, ok := room[r]; ok {
				e.Cause, e.Look, e.Remedy, e.Clause = t.cause, t.look, t.remedy, t.clause
			}
		}
		at[r] = len(all)
		all = append(all, e)
	}
	// A status refers to the reasons that cause it, and each of these to the status.
	done := statuses()
	for s, t := range statusTexts {
		for _, r := range t.see {
			all[at[r]].See = append(all[at[r]].See, done[s].Name)
		}
	}
	all = append(all, done...)
	all = append(all, syndromes()...)
	return append(all, events()...)
}
