package namedfiles

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestNamesAreThoseOfTheExtension(t *testing.T) {
	d := New(fstest.MapFS{
		"b.yaml": {Data: []byte("two")}, "a.yaml": {Data: []byte("one")}, "a.go": {}, "sub/c.yaml": {},
	}, ".yaml")
	if names := d.Names(); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("found %v", names)
	}
	if b, ok := d.Text("b"); !ok || string(b) != "two" {
		t.Errorf("found %q, %v", b, ok)
	}
	for _, name := range []string{"", "c", "a.yaml", "../a", "/a"} {
		if b, ok := d.Text(name); ok {
			t.Errorf("%q has the text %q", name, b)
		}
	}
}
