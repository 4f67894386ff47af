package rdmacore

import (
	"slices"
	"strings"
	"testing"
)

const printed = `test_a (tests.test_x.T.test_a) ... ok
test_b (tests.test_x.T.test_b)
Says what it does. ... skipped 'Device memory is not supported'
test_c (tests.test_x.T.test_c)
Prints in between ... a warning
ok
test_d (tests.test_y.T.test_d) ... ERROR
test_e (tests.test_y.T.test_e) ... skipped "it's old"

======================================================================
ERROR: test_d (tests.test_y.T.test_d)
----------------------------------------------------------------------
Ran 5 tests in 1.5s
`

func TestParseReadsEveryResult(t *testing.T) {
	r, err := Parse(strings.NewReader(printed))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"tests.test_x.T.test_a": Passed, "tests.test_x.T.test_b": "Device memory is not supported", "tests.test_x.T.test_c": Passed,
		"tests.test_y.T.test_d": Failed, "tests.test_y.T.test_e": "it's old",
	} {
		if r[name] != want {
			t.Errorf("%s: found %q, expected %q", name, r[name], want)
		}
	}
	if _, err := Parse(strings.NewReader(strings.Replace(printed, "Ran 5", "Ran 6", 1))); err == nil {
		t.Error("a test without a result was not missed")
	}
}

func TestBehindNamesFailedAndMissed(t *testing.T) {
	r := Results{"a": Passed, "b": "not supported", "c": Failed}
	got := r.Behind(Results{"a": Passed, "b": Passed, "c": Passed, "d": Passed, "e": "not supported"})
	if want := []string{"b", "c", "d"}; !slices.Equal(got, want) {
		t.Errorf("found %v, expected %v", got, want)
	}
}

func TestRxePassesWhatWasSeen(t *testing.T) {
	r, err := Rxe()
	if err != nil {
		t.Fatal(err)
	}
	if len(r) < 200 || r.Count(Passed) == 0 {
		t.Errorf("%d tests, %d passed", len(r), r.Count(Passed))
	}
}
