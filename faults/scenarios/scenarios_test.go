package scenarios

import (
	"strings"
	"testing"

	"softrdma/faults"
	"softrdma/faults/file"
)

func TestScenariosAreDocumentedRules(t *testing.T) {
	if len(Names()) < 15 {
		t.Fatalf("found the scenarios %v, expected at least 15", Names())
	}
	for _, n := range Names() {
		b, _ := Text(n)
		r, err := file.Parse(n, b)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := faults.New(r, "rdma0"); err != nil || len(r.Rules) == 0 {
			t.Errorf("%s: %d rules, %v", n, len(r.Rules), err)
		}
		if s := Summary(n); !strings.Contains(s, ": ") || !strings.HasSuffix(s, ".") || !strings.Contains(string(b), "\n#\n# ") {
			t.Errorf("%s begins with %q, expected a title, a summary and an explanation", n, s)
		}
		for _, r := range r.Rules {
			if r.Name == "" {
				t.Errorf("%s: a rule without a name", n)
			}
		}
	}
	if _, ok := Text("none"); ok || Summary("none") != "" {
		t.Error("found a scenario that is not there")
	}
}
