package lessons

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/internal/explain"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/verbs"
)

// simulated runs f in a bubble with a course whose devices are on a simulated network.
func simulated(t *testing.T, f func(t *testing.T, c *Course)) {
	t.Helper()
	t.Setenv("SOFTRDMA_CONTROL_DIR", "off")
	synctest.Test(t, func(t *testing.T) {
		d := simnet.Faults{Delay: 50 * time.Microsecond, Bandwidth: 10e9}
		w := bubble.New(1, simnet.LinkConfig{Egress: d, Ingress: d})
		opened := 0
		c := newCourse(func(context.Context, path, int) (*verbs.Device, error) {
			opened++
			h, err := w.Open(fmt.Sprintf("127.1.0.%d", opened))
			if err != nil {
				return nil, err
			}
			return h.Device, nil
		}, 256<<10)
		f(t, c)
		c.End("")
		w.End()
	})
}

// do sends a request to a course.
func do(t *testing.T, c *Course, method, path string, code int) (s struct {
	Lessons []Outline
	State   State
	Error   string
}) {
	t.Helper()
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	if w.Code != code {
		t.Fatalf("%s %s: %d %s, expected %d", method, path, w.Code, w.Body, code)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// take takes a whole lesson, and returns what its steps have shown.
func take(t *testing.T, c *Course, id string) []*Result {
	t.Helper()
	o := do(t, c, http.MethodPost, "/api/lessons/"+id, http.StatusOK)
	var steps []StepOutline
	for _, l := range o.Lessons {
		if l.ID == id {
			steps = l.Steps
		}
	}
	for i := range steps {
		o = do(t, c, http.MethodPost, "/api/lessons/"+id+"/next", http.StatusOK)
		if o.State.Error != "" || len(o.State.Results) != i+1 || o.State.Busy {
			t.Fatalf("%s, step %d: %+v", id, i+1, o.State)
		}
	}
	if o.State = do(t, c, http.MethodGet, "/api/lessons", http.StatusOK).State; o.State.Running || len(o.State.Results) != len(steps) {
		t.Errorf("%s: expected to have ended after %d steps, found %+v", id, len(steps), o.State)
	}
	return o.State.Results
}

// figure returns the value of a figure of a result.
func (r *Result) of(name string) string {
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	return "none"
}

func has(t *testing.T, r *Result, name, want string) {
	t.Helper()
	if got := r.of(name); !strings.Contains(got, want) {
		t.Errorf("%s: expected %q, found %q in %+v", name, want, got, r.Figures)
	}
}

// rungs counts the packets of a ladder that are lost or at fault.
func rungs(r *Result) (lost, faults int) {
	if r.Ladder != nil {
		for _, x := range r.Ladder.Rungs {
			if !x.Received {
				lost += x.Packets
			}
			if x.Fault {
				faults++
			}
		}
	}
	return lost, faults
}

func TestLessonOnQueuePairs(t *testing.T) {
	simulated(t, func(t *testing.T, c *Course) {
		r := take(t, c, "queue-pair")
		has(t, r[0], "QP of A", "RESET")
		has(t, r[1], "state of A, B", "RTS, RTS")
		has(t, r[1], "packets", "0")
		has(t, r[2], "completion at B", "IBV_WC_SUCCESS, 17 bytes")
		has(t, r[2], "B's memory", greeting)
		if n := labels(r[3], "RNR"); n < 2 || r[3].of("RNR NAKs") != fmt.Sprint(n) {
			t.Errorf("%d RNR NAKs: %+v", n, r[3].Figures)
		}
		has(t, r[4], "completions at B", "0")
		has(t, r[4], "B's memory", greeting)
		if packets(r[4]) != 2 {
			t.Errorf("%+v", r[4].Ladder)
		}
	})
}

func TestLessonOnStatuses(t *testing.T) {
	simulated(t, func(t *testing.T, c *Course) {
		r := take(t, c, "status-9")
		for i, status := range []string{"0 ", "9 ", "10 ", "5 ", "0 "} {
			has(t, r[i], "status", status)
		}
		has(t, r[1], "A's reason", "NAK_INVALID_REQUEST")
		has(t, r[1], "B says", "needs")
		has(t, r[2], "B says", "outside the memory region")
		has(t, r[3], "packets sent", "0")
		for i, want := range []int{0, 1, 1, 0, 0} {
			if _, faults := rungs(r[i]); faults != want {
				t.Errorf("step %d: %d packets at fault, expected %d: %+v", i+1, faults, want, r[i].Ladder)
			}
		}
	})
}

func TestLessonOnLosses(t *testing.T) {
	simulated(t, func(t *testing.T, c *Course) {
		r := take(t, c, "lost-packet")
		for i, want := range []int{0, 1, 1, 1} {
			has(t, r[i], "packets lost", fmt.Sprint(want))
			if lost, _ := rungs(r[i]); lost < want || want == 0 && lost > 0 {
				t.Errorf("step %d: the ladder shows %d lost packets, expected %d", i+1, lost, want)
			}
		}
		again := r[2].Charts[0].Bars
		if again[0].Value != 0 || again[2].Value < 1024 || again[1].Value < 4*again[2].Value {
			t.Errorf("sent again: %+v", again)
		}
		if len(r[4].Charts) != 2 {
			t.Errorf("%+v", r[4])
		}
	})
}

func TestLessonOnZeroCopy(t *testing.T) {
	simulated(t, func(t *testing.T, c *Course) {
		r := take(t, c, "zero-copy")
		has(t, r[1], "copied by the programs", "512.0 KiB")
		has(t, r[2], "copied by the programs", "0 B")
		has(t, r[2], "data moved", "256.0 KiB")
		has(t, r[3], "B's memory", "first")
		if at := strings.Fields(r[2].of("B's data is at"))[0]; labels(r[2], "VA "+at) == 0 {
			t.Errorf("no packet names %s: %+v", at, r[2].Ladder)
		}
	})
}

func TestOneLessonRunsAtATime(t *testing.T) {
	simulated(t, func(t *testing.T, c *Course) {
		do(t, c, http.MethodPost, "/api/lessons/queue-pair/next", http.StatusConflict)
		do(t, c, http.MethodPost, "/api/lessons/dance", http.StatusNotFound)
		do(t, c, http.MethodPost, "/api/lessons/queue-pair", http.StatusOK)
		if o := do(t, c, http.MethodPost, "/api/lessons/zero-copy", http.StatusConflict); !strings.Contains(o.Error, "queue-pair") {
			t.Error(o.Error)
		}
		do(t, c, http.MethodPost, "/api/lessons/zero-copy/next", http.StatusConflict)
		do(t, c, http.MethodPost, "/api/lessons/queue-pair/next", http.StatusOK)
		if o := do(t, c, http.MethodDelete, "/api/lessons", http.StatusOK); o.State.Running || len(o.State.Results) != 1 {
			t.Errorf("%+v", o.State)
		}
		do(t, c, http.MethodPost, "/api/lessons/zero-copy", http.StatusOK)
		time.Sleep(idleLimit + time.Second)
		if o := do(t, c, http.MethodGet, "/api/lessons", http.StatusOK); o.State.Running || !strings.Contains(o.State.Ended, "no step ran") {
			t.Errorf("%+v", o.State)
		}
	})
}

func TestStepsEndWithTheLesson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourse(nil, 0)
		closed := false
		c.all = []lesson{{id: "long", begin: func(x *tour) []step {
			x.atEnd(func() { closed = true })
			return []step{{title: "wait", run: func(ctx context.Context, _ *Result) error { <-ctx.Done(); return ctx.Err() }}, {title: "never"}}
		}}}
		do(t, c, http.MethodPost, "/api/lessons/long", http.StatusOK)
		go c.step("long")
		synctest.Wait()
		do(t, c, http.MethodPost, "/api/lessons/long/next", http.StatusConflict)
		if o := do(t, c, http.MethodGet, "/api/lessons", http.StatusOK); !o.State.Busy {
			t.Errorf("%+v", o.State)
		}
		o := do(t, c, http.MethodDelete, "/api/lessons", http.StatusOK)
		if synctest.Wait(); !closed || o.State.Running || !strings.Contains(o.State.Error, "wait: context canceled") || o.State.Ended != "ended by the page" {
			t.Errorf("closed %v, %+v", closed, o.State)
		}
	})
}

func TestNamesInLessonsAreExplained(t *testing.T) {
	for _, l := range newCourse(nil, 1<<20).outlines() {
		if len(l.Steps) < 3 || l.Summary == "" {
			t.Errorf("%+v", l)
		}
		for _, s := range l.Steps {
			for _, name := range s.Explain {
				if found, err := explain.Lookup(name); err != nil || found[0].Name != name {
					t.Errorf("%s, %s: %v %v", l.Title, s.Title, found, err)
				}
			}
		}
	}
}
