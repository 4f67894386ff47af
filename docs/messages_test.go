package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"softrdma/internal/explain"
)

// inMessage finds the name of a reason in a message: of "NAME: sentence" and
// of "sentence (see: softrdma explain NAME)".
var inMessage = regexp.MustCompile(`\b([A-Z]+(?:_[A-Z]+)+): |\(see: softrdma explain ([A-Z_]+)\)`)

// The messages in the troubleshooting guide read as the program prints them: each has the
// sentence of the reason that it names. Captures have sentences of their own.
func TestTroubleshootingQuotesTheSentencesOfReasons(t *testing.T) {
	sentences := map[string]*regexp.Regexp{}
	for _, e := range explain.All() {
		if e.Kind == explain.Reason {
			sentences[e.Name] = regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(e.Meaning), "…", ".+"))
		}
	}
	analyser := ""
	files, err := filepath.Glob(filepath.Join(root, "internal", "capture", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		analyser += string(b)
	}
	found := 0
	for i, block := range strings.Split(documents(t)["troubleshooting.md"], "```") {
		message := strings.Join(strings.Fields(block), " ")
		if i%2 == 0 {
			continue
		}
		for _, m := range inMessage.FindAllStringSubmatchIndex(message, -1) {
			name := message[max(m[2], 0):max(m[3], 0)] + message[max(m[4], 0):max(m[5], 0)]
			sentence := sentences[name]
			switch {
			case sentence == nil || ownSentence[name]:
			case strings.HasSuffix(message[:m[0]], "[fault: ") || strings.HasSuffix(message[:m[0]], "[warning: "):
				found++
				if own, _, _ := strings.Cut(message[m[1]:], ":"); !strings.Contains(analyser, firstWords(own)) && !sentence.MatchString(message) {
					t.Errorf("troubleshooting.md: softrdma capture says nothing like %q of %s", firstWords(own), name)
				}
			default:
				found++
				if !sentence.MatchString(message) {
					t.Errorf("troubleshooting.md quotes %s, but not its sentence %v:\n%s", name, sentence, message)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d sentences: the document is not read any more", found)
	}
}

// ownSentence has reasons whose errors have a text of their own.
var ownSentence = map[string]bool{"DEVICE_OPEN": true}

// firstWords returns the first four words of a text.
func firstWords(s string) string {
	words := strings.Fields(s)
	return strings.Join(words[:min(4, len(words))], " ")
}
