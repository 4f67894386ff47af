package scenarios

import (
	"testing"

	"softrdma/internal/simulate/scenario"
)

func TestScenariosAreRightAndExplained(t *testing.T) {
	names := Names()
	if len(names) < 5 {
		t.Fatalf("%v", names)
	}
	for _, name := range names {
		text, ok := Text(name)
		if !ok {
			t.Fatalf("%s has no text", name)
		}
		s, err := scenario.Parse(name, text)
		if err != nil {
			t.Error(err)
			continue
		}
		if s.Title == "" || s.About == "" {
			t.Errorf("%s has no title, or does not say what it shows", name)
		}
		for _, p := range s.Papers {
			if p.What == "" || p.Figure == "" || p.Ours == "" {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
	if _, ok := Text("nothing"); ok {
		t.Error("there is a scenario of an unknown name")
	}
}
