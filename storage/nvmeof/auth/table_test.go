package auth

import (
	"strings"
	"testing"
)

func TestTableHasTheSecretsOfHosts(t *testing.T) {
	one, two := "DHHC-1:00:"+example, "DHHC-1:01:"+example
	table, err := ParseTable("# hosts\n\nnqn.a " + one + "\n  nqn.b\t" + one + " " + two + "\n* " + two)
	if err != nil {
		t.Fatal(err)
	}
	a, b := parse(t, one), parse(t, two)
	for host, want := range map[string]Secrets{"nqn.a": {a, Secret{}}, "nqn.b": {a, b}, "nqn.c": {b, Secret{}}} {
		if got := table.For(host); got != want {
			t.Errorf("%s: got the wrong secrets", host)
		}
	}
	for text, want := range map[string]string{
		"": "line 1: expected NQN SECRET", "# none\n\n": "line 2: expected NQN SECRET", "nqn.a\n": "found 1 words", "\nnqn.a a b c": "line 2: expected",
		"nqn.a secret": "line 1: secret: expected the form DHHC-1", "nqn.a " + one + "\nnqn.a " + one: "line 2: expected each name once",
	} {
		if _, err := ParseTable(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: expected %q, found %v", text, want, err)
		}
	}
}

// FuzzTable checks that a text is a table or an error, which does not contain the secret.
func FuzzTable(f *testing.F) {
	f.Add("nqn.a DHHC-1:00:" + example)
	f.Add("# x\n* a b")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := ParseTable(text)
		if (err == nil) != (len(table) > 0) {
			t.Errorf("%d hosts, %v", len(table), err)
		}
		for host, s := range table {
			if s.Host.IsZero() {
				t.Errorf("host %q has no secret", host)
			}
		}
	})
}
