package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// anchoredLink is a link to a document, to a heading of it, or to a heading of the same document.
	anchoredLink = regexp.MustCompile(`\]\(([^()\s#]*)(?:#([^()\s]*))?\)`)
	headingLine  = regexp.MustCompile("(?m)^#{1,6} +(.+)$")
	fenced       = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	noAnchor     = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the headings of a document in the form in which GitHub links to them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range headingLine.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		slug := strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		for n, first := 1, slug; all[slug]; n++ {
			slug = fmt.Sprintf("%s-%d", first, n)
		}
		all[slug] = true
	}
	return all
}

// TestDocumentsLinkToWhatExists checks the files and headings that all documents of the
// repository link to.
func TestDocumentsLinkToWhatExists(t *testing.T) {
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		b, err := os.ReadFile(path)
		texts[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	headings := 0
	for f, text := range texts {
		for _, m := range anchoredLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			to := f
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(f), filepath.FromSlash(m[1]))
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", f, m[1], err)
				continue
			}
			if m[2] == "" {
				continue
			}
			headings++
			if !anchors(texts[to])[m[2]] {
				t.Errorf("%s links to %s#%s: expected a heading of that name, found none", f, m[1], m[2])
			}
		}
	}
	if headings < 50 {
		t.Errorf("found %d links to headings: they are not read any more", headings)
	}
}
