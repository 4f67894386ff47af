package docs

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// An arrow is an import that crosses folders: both are siblings below the same parent.
type arrow struct{ from, to string }

// TestFoldersFormNoCircles looks for circles of imports between sibling folders, at each level of the
// tree. "internal" is no level of its own: its folders are siblings of the public packages.
func TestFoldersFormNoCircles(t *testing.T) {
	imports := importsOf(t)
	for pkg, list := range imports {
		slices.Sort(list)
		imports[pkg] = slices.DeleteFunc(slices.Compact(list), func(p string) bool { return imports[p] == nil }) // of others
	}
	if len(imports) < 50 {
		t.Fatalf("found imports of %d packages", len(imports))
	}
	for a, n := range inCircles(imports) {
		t.Errorf("%d packages below %s import what is below %s, which leads back: expected none. "+
			"Move what both need into a folder below them", n, a.from, a.to)
	}
}

func TestFolderCirclesAreFound(t *testing.T) {
	found := inCircles(map[string][]string{
		"internal/a/x": {"internal/b/y", "internal/a/z", "internal/d"},
		"internal/a/z": {"internal/a/x/deep"},
		"internal/b/y": {"c"},
		"c":            {"internal/a/w"},
		"internal/d":   {"internal/e"},
	})
	want := map[arrow]int{{"a", "b"}: 1, {"b", "c"}: 1, {"c", "a"}: 1, {"a/x", "a/z"}: 1, {"a/z", "a/x"}: 1}
	if !maps.Equal(found, want) {
		t.Errorf("found %v, expected %v", found, want)
	}
}

// inCircles returns the arrows between sibling folders that are part of a circle, with the number of
// imports of each.
func inCircles(imports map[string][]string) map[arrow]int {
	arrows := map[arrow]int{}
	next := map[string][]string{}
	for from, list := range imports {
		for _, to := range list {
			a, ok := between(strings.TrimPrefix(from, "internal/"), strings.TrimPrefix(to, "internal/"))
			if !ok {
				continue
			}
			if arrows[a]++; arrows[a] == 1 {
				next[a.from] = append(next[a.from], a.to)
			}
		}
	}
	maps.DeleteFunc(arrows, func(a arrow, _ int) bool { return !leads(next, a.to, a.from, map[string]bool{}) })
	return arrows
}

// between returns the sibling folders in which two packages are.
func between(from, to string) (arrow, bool) {
	a, b := strings.Split(from, "/"), strings.Split(to, "/")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return arrow{strings.Join(a[:i+1], "/"), strings.Join(b[:i+1], "/")}, true
		}
	}
	return arrow{}, false // one is the other's parent
}

// leads reports whether imports lead from one folder to another.
func leads(next map[string][]string, from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	return slices.ContainsFunc(next[from], func(f string) bool { return !seen[f] && leads(next, f, to, seen) })
}
