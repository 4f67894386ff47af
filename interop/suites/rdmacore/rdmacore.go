// Package suite reads what rdma-core's own tests print (unittest's verbose form), and knows what Linux's Soft RoCE makes
// of them. It runs nothing.
package rdmacore

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Passed is the result of a test that passed. That of one that was skipped is the reason; of one that failed, Failed.
const (
	Passed = "passed"
	Failed = "FAILED"
)

// Results are the results of tests by their full names.
type Results map[string]string

//go:embed rxe.json
var rxe []byte

// Rxe are the results on Linux's Soft RoCE in the lab, as interop's TestSuiteOnLinux records them.
func Rxe() (Results, error) {
	r := Results{}
	return r, json.Unmarshal(rxe, &r)
}

// Commands are the lines of a shell that run the suite in an empty directory, with the Python that Debian's packages are
// for.
const Commands = "cp -r /usr/share/doc/rdma-core/tests . && gunzip -f tests/*.gz && exec /usr/bin/python3 tests/run_tests.py --dev rxe0 -v"

// BuiltCommands are those for the tree of rdma-core at RDMA_CORE that its build.sh has built, with its own libraries
// and providers.
const BuiltCommands = "export LD_LIBRARY_PATH=$RDMA_CORE/build/lib PYTHONPATH=$RDMA_CORE/build/python PYTHONDONTWRITEBYTECODE=1 && " +
	"exec /usr/bin/python3 $RDMA_CORE/tests/run_tests.py --dev rxe0 -v"

var (
	begin = regexp.MustCompile(`^test\w* \((tests\.[\w.]+)\)`)
	end   = regexp.MustCompile(`(?:^|\.\.\. )(?:(ok)|(FAIL|ERROR)|skipped ['"](.*)['"])$`)
	total = regexp.MustCompile(`^Ran (\d+) tests? in`)
)

// Parse reads results. It fails where there are fewer than the suite says that it ran.
func Parse(in io.Reader) (Results, error) {
	r := Results{}
	name, ran := "", -1
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if m := begin.FindStringSubmatch(line); m != nil {
			name = m[1]
		}
		if m := total.FindStringSubmatch(line); m != nil {
			_, _ = fmt.Sscan(m[1], &ran)
		}
		m := end.FindStringSubmatch(line)
		if m == nil || name == "" {
			continue
		}
		switch {
		case m[1] != "":
			r[name] = Passed
		case m[2] != "":
			r[name] = Failed
		default:
			r[name] = m[3]
		}
		name = ""
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if ran != len(r) {
		return r, fmt.Errorf("the suite ran %d tests, of which %d have a result that can be read", ran, len(r))
	}
	return r, nil
}

// Behind are the tests that fail, and those that are not passed though other passes them.
func (r Results) Behind(other Results) (names []string) {
	for name, result := range r {
		if result == Failed {
			names = append(names, name)
		}
	}
	for name, result := range other {
		if result == Passed && r[name] != Passed && r[name] != Failed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Count is how many tests have a result.
func (r Results) Count(result string) (n int) {
	for _, x := range r {
		if x == result {
			n++
		}
	}
	return n
}
