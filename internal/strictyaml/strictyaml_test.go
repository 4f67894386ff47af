package strictyaml

import (
	"reflect"
	"strings"
	"testing"
)

type part struct {
	Count int      `json:"count"`
	Share float64  `json:"share"`
	Names []string `json:"names"`
}

// A named is one value, and not its fields.
type named struct{ text string }

func (n *named) UnmarshalText(b []byte) error {
	n.text = string(b)
	return nil
}

type whole struct {
	Named named  `json:"named"`
	On    bool   `json:"on"`
	Parts []part `json:"parts"`
	Of    part   `json:"of"`
}

func TestParseReadsValues(t *testing.T) {
	var got whole
	f, err := Parse("f.yaml", "parts", []byte("on: true\nparts:\n  - {count: 0x10, names: [a, b]}\n  - {share: .5, names: c}\n"), &got, nil)
	want := whole{On: true, Parts: []part{{Count: 16, Names: []string{"a", "b"}}, {Share: .5, Names: []string{"c"}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	if !f.Has("parts[1].share") || f.Has("parts[0].share") {
		t.Error("the places are wrong")
	}
	for path, want := range map[string]string{
		"parts[0].names[1]": "f.yaml:3:30: x", "parts[1].share": "f.yaml:4:13: x", "parts[1].count": "f.yaml:4:5: x", "of": "f.yaml:1:1: x",
	} {
		if got := f.ErrorAt(path, "x").Error(); got != want {
			t.Errorf("%s: %s, expected %s", path, got, want)
		}
	}
}

// What a file does not name keeps its value, so that a part can be changed.
func TestDecodeChangesOnlyWhatIsNamed(t *testing.T) {
	var w whole
	f, err := Parse("f.yaml", "parts", []byte("parts: [{count: 3}]\n"), &w, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := part{Count: 1, Share: .25}
	if err := f.Decode("parts[0]", &p); err != nil || p.Count != 3 || p.Share != .25 {
		t.Errorf("%+v, %v", p, err)
	}
	if err := f.Decode("of", &p); err != nil || p.Count != 3 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestParseNamesLineAndColumn(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{"on: yes\n", `f.yaml:1:5: on "yes": expected true or false`},
		{"parts:\n  - {count: few}\n", `f.yaml:2:13: count "few": expected a whole number`},
		{"of: {share: much}\n", `f.yaml:1:13: share "much": expected a number`},
		{"of:\n  cuont: 1\n", `f.yaml:2:3: field "cuont": expected one of count, share, names`},
		{"of: 3\n", `f.yaml:1:5: expected fields, one of count, share, names, found a value`},
		{"of: {count: 1, count: 2}\n", `f.yaml:1:16: field "count": expected once, found twice`},
		{"named: {\"\": 1}\n", `f.yaml:1:8: named: expected one value, found a mapping`},
		{"named: [1]\n", `f.yaml:1:8: named: expected one value, found a list`},
		{"of: {count: [1]}\n", `f.yaml:1:13: count: expected one value, found a list`},
		{"on: &a true\nof: *a\n", `f.yaml:2:5: expected a value, found the alias *a`},
		{"of: [\n", `f.yaml:`},
		{"on: true\n---\nof: {count: 1}\n", `f.yaml:3:1: expected one document, found another one`},
		{"on: true\n---\nof: [\n", `f.yaml:`},
		{"", `f.yaml:1:1: expected parts, found an empty file`},
	} {
		var w whole
		if _, err := Parse("f.yaml", "parts", []byte(x.text), &w, nil); err == nil || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%q: %v, expected %s", x.text, err, x.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("on: true\nparts: [{count: 1, names: [a]}]\n"))
	f.Add([]byte("a: &a [*a]\nparts: *a"))
	f.Add([]byte("parts: {{}: 1}"))
	f.Add([]byte("named: {{}: 1}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var w whole
		file, err := Parse("f", "parts", b, &w, nil)
		if err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%v does not begin with the name", err)
		}
		if err == nil {
			for i := range w.Parts {
				if err := file.ErrorAt("parts", "%d", i); !strings.HasPrefix(err.Error(), "f:") {
					t.Error(err)
				}
			}
		}
	})
}
