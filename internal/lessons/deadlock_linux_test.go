package lessons

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/internal/control"
)

// The fabric of this lesson runs in real time: the facts below hold however long the steps take.
func TestLessonOnDeadlocks(t *testing.T) {
	t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(t.TempDir(), "control"))
	c := newCourse(nil, 0)
	r := take(t, c, "deadlock")
	has(t, r[0], "switches, adapters", "5, 5")
	has(t, r[1], "afterwards", "200 of 200 arrived")
	if len(r[2].Circle) != 5 || r[2].Circle[4].To != r[2].Circle[0].From {
		t.Errorf("%+v", r[2])
	}
	has(t, r[2], "the tables allow", "a circle of")
	has(t, r[3], "lanes that stand still", "0")
	has(t, r[4], "packets", "10000 arrived")
	has(t, r[4], "the tables allow", "no circle")
	if s, err := control.Sockets(); err != nil || len(s) != 0 {
		t.Errorf("after the lesson: %v, %v", s, err)
	}
}

func TestFabricOfALessonEndsWithIt(t *testing.T) {
	t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(t.TempDir(), "control"))
	c := newCourse(nil, 0)
	do(t, c, http.MethodPost, "/api/lessons/deadlock", http.StatusOK)
	do(t, c, http.MethodPost, "/api/lessons/deadlock/next", http.StatusOK)
	all, err := control.Processes(t.Context())
	if err != nil || len(all) != 1 || strings.Join(all[0].Fabrics, " ") != "lesson" {
		t.Fatalf("%+v, %v", all, err)
	}
	do(t, c, http.MethodDelete, "/api/lessons", http.StatusOK)
	if s, err := control.Sockets(); err != nil || len(s) != 0 {
		t.Errorf("after the lesson: %v, %v", s, err)
	}
}
