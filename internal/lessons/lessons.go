// Package lessons has guided tours for people who learn RDMA. Each tour runs real traffic between devices that
// it opens on this machine, one step at a time, and shows what was measured while a step ran: its figures come from
// the devices, never from the text.
//
// The package owns the texts, the order of steps, and the devices of the lesson that runs. One lesson runs at a
// time. It ends by itself, at the latest some minutes after the last step, and closes what it has opened.
package lessons

import (
	"context"

	"softrdma/internal/capture/ladder"
	"softrdma/verbs"
)

// A lesson is a guided tour.
type lesson struct {
	id, title, summary string

	// begin returns the steps. What they open they give to the tour.
	begin func(t *tour) []step
}

// A step is a part of a lesson.
type step struct {
	title   string
	text    string   // what is about to happen, and why
	explain []string // names that softrdma explain knows
	run     func(ctx context.Context, r *Result) error
}

// all returns the lessons in the order in which they are best read.
func all() []lesson {
	return []lesson{queuePairs, statusNine, losses, deadlock, zeroCopy}
}

// A Result is what a step has shown.
type Result struct {
	Said    []string           `json:"said"` // what the figures mean
	Figures []Figure           `json:"figures"`
	Ladder  *ladder.Connection `json:"ladder"` // nil if there is none
	Quiet   bool               `json:"quiet"`  // the devices have sent no packet
	Charts  []Chart            `json:"charts"`
	Circle  []Edge             `json:"circle"` // lanes of a fabric of which each waits for the next
}

// A Figure is a measured value.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Bad   bool   `json:"bad,omitempty"`
}

// A Chart compares values.
type Chart struct {
	Title string `json:"title"`
	Bars  []Bar  `json:"bars"`
}

// A Bar is one of the values.
type Bar struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Text  string  `json:"text"`
}

// An Edge is a lane that waits for another one.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func newResult() *Result {
	return &Result{Said: []string{}, Figures: []Figure{}, Charts: []Chart{}, Circle: []Edge{}}
}

func (r *Result) say(text string) { r.Said = append(r.Said, text) }

func (r *Result) figure(name, value string) {
	r.Figures = append(r.Figures, Figure{Name: name, Value: value})
}

func (r *Result) bad(name, value string) {
	r.Figures = append(r.Figures, Figure{Name: name, Value: value, Bad: true})
}

// A path is how packets go between the devices of a lesson.
type path uint8

const (
	sockets path = iota // of the system, over its loopback interface
	memory              // in the process
)

// An opener opens device n of a lesson, from 0.
type opener func(ctx context.Context, via path, n int) (*verbs.Device, error)

// A tour is a lesson that runs.
type tour struct {
	lesson *lesson
	steps  []step
	size   int // bytes that a step moves to measure
	open   opener
	ends   []func() // closes what was opened, the latest first
}

// atEnd calls f when the tour ends.
func (t *tour) atEnd(f func()) { t.ends = append(t.ends, f) }

func (t *tour) end() {
	for len(t.ends) > 0 {
		last := t.ends[len(t.ends)-1]
		t.ends = t.ends[:len(t.ends)-1]
		last()
	}
}
