package lessons

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"softrdma/internal/control"
)

const (
	stepLimit = 30 * time.Second // of one step
	idleLimit = 5 * time.Minute  // after a step, until the lesson ends
)

// A Course has all lessons, of which one runs at a time. It is an http.Handler:
//
//	GET    /api/lessons            the lessons, and the state of the one that runs or ran last
//	POST   /api/lessons/ID         starts a lesson
//	POST   /api/lessons/ID/next    runs its next step, and replies when that has ended
//	DELETE /api/lessons            ends the lesson that runs
//
// Any number of goroutines may call it.
type Course struct {
	all  []lesson
	size int // bytes that a step moves to measure
	open opener
	mux  *http.ServeMux

	stepping sync.Mutex // held while a step runs, and while a lesson ends

	mu     sync.Mutex // guards the fields below
	tour   *tour      // nil if no lesson runs
	state  *State     // of the lesson that runs or ran last, nil if there was none
	cancel context.CancelFunc
	idle   *time.Timer
}

// A State is how far a lesson has come.
type State struct {
	ID      string    `json:"id"`
	Running bool      `json:"running"`
	Busy    bool      `json:"busy"`    // a step runs
	Results []*Result `json:"results"` // of the steps that have run
	Error   string    `json:"error,omitempty"`
	Ended   string    `json:"ended,omitempty"` // why it does not run any more
}

// An Outline describes a lesson.
type Outline struct {
	ID      string        `json:"id"`
	Title   string        `json:"title"`
	Summary string        `json:"summary"`
	Steps   []StepOutline `json:"steps"`
}

// A StepOutline describes a step before it runs.
type StepOutline struct {
	Title   string   `json:"title"`
	Text    []string `json:"text"`    // paragraphs
	Explain []string `json:"explain"` // names for softrdma explain
}

// New returns a course whose lessons open devices on loopback addresses.
func New() *Course { return newCourse(newLoopback().open, 16<<20) }

func newCourse(open opener, size int) *Course {
	c := &Course{all: all(), open: open, size: size, mux: http.NewServeMux()}
	c.mux.HandleFunc("GET /api/lessons", func(w http.ResponseWriter, _ *http.Request) { c.reply(w) })
	c.mux.HandleFunc("POST /api/lessons/{id}", c.start)
	c.mux.HandleFunc("POST /api/lessons/{id}/next", c.next)
	c.mux.HandleFunc("DELETE /api/lessons", func(w http.ResponseWriter, _ *http.Request) { c.End("ended by the page"); c.reply(w) })
	c.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		control.Refuse(w, http.StatusNotFound, "%s %s: expected a route of the lessons, with a method that it has", r.Method, r.URL.Path)
	})
	return c
}

// ServeHTTP implements http.Handler.
func (c *Course) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }

func (c *Course) outlines() (list []Outline) {
	for _, l := range c.all {
		o := Outline{ID: l.id, Title: l.title, Summary: l.summary}
		for _, s := range l.begin(&tour{lesson: &l, size: c.size, open: c.open}) {
			o.Steps = append(o.Steps, StepOutline{s.title, strings.Split(s.text, "\n\n"), append([]string{}, s.explain...)})
		}
		list = append(list, o)
	}
	return list
}

func (c *Course) reply(w http.ResponseWriter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := json.Marshal(struct {
		Lessons []Outline `json:"lessons"`
		State   *State    `json:"state"`
	}{c.outlines(), c.state})
	if err != nil {
		control.Refuse(w, http.StatusInternalServerError, "reply: %v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // the browser has gone
}

func (c *Course) start(w http.ResponseWriter, r *http.Request) {
	if err := c.begin(r.PathValue("id")); err != nil {
		control.Refuse(w, err.code, "%s", err.text)
		return
	}
	c.reply(w)
}

// A refusal is an error with a status of HTTP.
type refusal struct {
	code int
	text string
}

func refuse(code int, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// begin starts a lesson, unless one runs.
func (c *Course) begin(id string) *refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tour != nil {
		return refuse(http.StatusConflict, "lesson: expected none that runs, found %s: end it first", c.tour.lesson.id)
	}
	var ids []string
	for i := range c.all {
		l := &c.all[i]
		if ids = append(ids, l.id); l.id != id {
			continue
		}
		c.tour = &tour{lesson: l, size: c.size, open: c.open}
		c.tour.steps = l.begin(c.tour)
		c.state = &State{ID: id, Running: true, Results: []*Result{}}
		c.idle = time.AfterFunc(idleLimit, func() { c.End("ended, because no step ran for " + idleLimit.String()) })
		return nil
	}
	return refuse(http.StatusNotFound, "lesson: expected one of %s, found %q", strings.Join(ids, ", "), id)
}

func (c *Course) next(w http.ResponseWriter, r *http.Request) {
	if err := c.step(r.PathValue("id")); err != nil {
		control.Refuse(w, err.code, "%s", err.text)
		return
	}
	c.reply(w)
}

// step runs the next step of a lesson. It continues if the page that asked for it is closed.
func (c *Course) step(id string) *refusal {
	if !c.stepping.TryLock() {
		return refuse(http.StatusConflict, "step: expected none that runs, found one: wait for it")
	}
	done := false
	defer func() {
		if done {
			c.end("")
		}
		c.stepping.Unlock()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	c.mu.Lock()
	t := c.tour
	if t == nil || t.lesson.id != id {
		c.mu.Unlock()
		return refuse(http.StatusConflict, "lesson %s: expected to run: start it first", id)
	}
	c.idle.Stop()
	c.cancel, c.state.Busy = cancel, true
	n := len(c.state.Results)
	c.mu.Unlock()

	result := newResult()
	err := t.steps[n].run(ctx, result)

	c.mu.Lock()
	defer c.mu.Unlock()
	s := *c.state // a reply may have the one before
	s.Busy, c.cancel = false, nil
	if err != nil {
		s.Error = fmt.Sprintf("%s: %v", t.steps[n].title, err)
		s.Results = append(s.Results[:n:n], result)
		done = !errors.Is(ctx.Err(), context.Canceled) // End has canceled it, and says why the lesson ends
	} else {
		s.Results = append(s.Results[:n:n], result)
		done = n+1 == len(t.steps)
	}
	c.state = &s
	if !done {
		c.idle.Reset(idleLimit)
	}
	return nil
}

// End ends the lesson that runs, if there is one, and closes its devices. why is shown, unless it is empty.
func (c *Course) End(why string) {
	c.mu.Lock()
	if c.cancel != nil {
		c.cancel()
	}
	c.mu.Unlock()
	c.stepping.Lock() // a step has ended
	defer c.stepping.Unlock()
	c.end(why)
}

// end is End for a caller that has stepping.
func (c *Course) end(why string) {
	c.mu.Lock()
	t := c.tour
	if t != nil {
		c.idle.Stop()
		s := *c.state
		s.Running, s.Ended = false, why
		c.state = &s
	}
	c.mu.Unlock()
	if t == nil {
		return
	}
	t.end() // with no lock but stepping, because closing takes time
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tour = nil
}
