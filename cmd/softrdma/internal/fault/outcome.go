package fault

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"softrdma/internal/explain"
)

// A verdict is how a program has ended.
type verdict string

const (
	survived   verdict = "survived"
	failed     verdict = "failed"      // with an exit code of its own
	crashed    verdict = "crashed"     // by a signal
	hung       verdict = "hung"        // until the timeout
	wrongBytes verdict = "wrong bytes" // it says that its data differs
)

// An outcome is a run of the program under one scenario.
type outcome struct {
	Scenario string  `json:"scenario"`
	Verdict  verdict `json:"verdict"`
	Code     int     `json:"exit_code"`
	Seconds  float64 `json:"seconds"`
	Slower   float64 `json:"slower"` // time, divided by that without faults
	Status   string  `json:"status,omitempty"`
	Line     string  `json:"line,omitempty"` // of the output, which shows the verdict or the status

	// Hits is how many packets, calls and objects the rules have hit.
	Hits     uint64            `json:"hits"`
	Counters map[string]uint64 `json:"counters,omitempty"` // of reasons that the devices gave, by name

	output string
}

// counted matches a line of exec -v with a reason that a device has counted.
var counted = regexp.MustCompile(`softrdma: (?:process \d+: )?\w+ ([A-Z][A-Z0-9_]+) (\d+)$`)

// lastSignal is the highest number of a signal.
const lastSignal = 64

// injected is the reason that devices count for each hit.
const injected = "FAULT_INJECTED"

// differs matches what programs print when the data that they check differs: rping, the pingpong programs of
// libibverbs with -c, fio, rdma-core's tests, which also decode it, and most others in some words of their own.
var differs = regexp.MustCompile(`(?i)data mismatch|invalid data in page|verify: bad|verif\w* (failed|error)|data validation fail|codec can't decode byte|data (differs|is wrong|corrupt)|(checksum|memory|payload|content) (mismatch|differs)|corrupted data|brought wrong (data|bytes)`)

// judge says how a run has ended.
func (o *outcome) judge(timedOut bool, wrong *regexp.Regexp) {
	o.count()
	line := o.find(wrong.MatchString)
	switch {
	case line != "":
		o.Verdict, o.Line = wrongBytes, line
	case timedOut:
		o.Verdict = hung
	case o.Code == 0:
		o.Verdict = survived
	case o.Code > 128 && o.Code <= 128+lastSignal: // beyond them it is an exit code such as -1
		o.Verdict = crashed // such as UCX, which aborts after a failed completion
	default:
		o.Verdict = failed
	}
	if o.Status == "" && o.Verdict != survived {
		status, at := o.status()
		o.Status = status
		if o.Line == "" {
			o.Line = at
		}
	}
	if o.Status == "" && o.Verdict == crashed {
		o.Status = syscall.Signal(o.Code - 128).String()
	}
	if o.Line == "" && o.Verdict != survived {
		o.Line = o.last()
	}
}

// endsRead is how much of a program's output is read, from its begin and from its end.
const endsRead = 256 << 10

// excerpt returns what is read of a program's output, with a line for what is left out. Programs that try again without
// end write hundreds of megabytes.
func excerpt(out io.ReaderAt, size int64) string {
	section := func(from, to int64) string {
		text, _ := io.ReadAll(io.NewSectionReader(out, from, to-from)) // a part says something, too
		return string(text)
	}
	if size <= 2*endsRead {
		return section(0, size)
	}
	return section(0, endsRead) + fmt.Sprintf("\n%s%d bytes of the output are left out\n", own, size-2*endsRead) + section(size-endsRead, size)
}

// code returns the exit code of a run, -1 if it has none.
func code(err error) int {
	e := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.ExitCode()
	}
	return -1
}

// own begins the lines of softrdma itself.
const own = "softrdma: "

// count takes the counters out of the output of exec -v. Those of each device are there once.
func (o *outcome) count() {
	o.Counters = make(map[string]uint64)
	for line := range strings.Lines(o.output) {
		if m := counted.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			n, _ := strconv.ParseUint(m[2], 10, 64) // digits
			o.Counters[m[1]] += n
		}
	}
	o.Hits = o.Counters[injected]
}

// hits returns the number of hits as the table has it: a program that was killed has not said it.
func (o *outcome) hits() string {
	if o.Hits == 0 && (o.Verdict == hung || o.Verdict == crashed) {
		return "?"
	}
	return strconv.FormatUint(o.Hits, 10)
}

// find returns the first line of the program's output with a property, "" if there is none.
func (o *outcome) find(f func(string) bool) string {
	for line := range strings.Lines(o.output) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, own) && f(line) {
			return line
		}
	}
	return ""
}

// last returns the last line of the program's output that is not empty.
func (o *outcome) last() (last string) {
	o.find(func(line string) bool {
		if line != "" {
			last = line
		}
		return false
	})
	return last
}

// flushed is the status of requests behind the one that has failed.
const flushed = "IBV_WC_WR_FLUSH_ERR"

// refusals are the events of the connection manager by which connecting fails.
var refusals = []string{"RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_UNREACHABLE", "RDMA_CM_EVENT_CONNECT_ERROR"}

// status returns the first status of a completion in the program's output, and its line. That of a flushed
// request is returned only if there is no other, and an event of refusals only if no request has failed.
func (o *outcome) status() (status, line string) {
	var said strings.Builder
	o.find(func(l string) bool {
		said.WriteString(l + "\n")
		return false
	})
	findings, _, _ := explain.Log(strings.NewReader(said.String())) // reading from memory does not fail
	rank := 0
	for _, f := range findings {
		for _, e := range f.Entries {
			if r := rankOf(&e); r > rank {
				rank, status, line = r, e.Name, f.Text
			}
		}
	}
	return status, line
}

// rankOf returns how much an entry says about how a program has ended, 0 for nothing.
func rankOf(e *explain.Entry) int {
	switch {
	case e.Kind == explain.Status && e.Name != flushed:
		return 3
	case e.Kind == explain.Status:
		return 2
	case e.Kind == explain.CMEvent && slices.Contains(refusals, e.Name):
		return 1
	}
	return 0
}

// noScenario is the name of the run without faults, with whose time the others are compared.
const noScenario = "(none)"

// what returns the verdict for people.
func (o *outcome) what() string {
	switch {
	case o.Scenario == noScenario:
		return fmt.Sprintf("%s (%.1f s)", o.Verdict, o.Seconds)
	case o.Verdict == survived:
		return fmt.Sprintf("survived (%.1f times as long)", o.Slower)
	case o.Verdict == hung:
		return fmt.Sprintf("hung (ended after %v)", time.Duration(o.Seconds*float64(time.Second)).Round(time.Second))
	case o.Verdict == failed:
		return fmt.Sprintf("failed (exit code %d)", o.Code)
	}
	return string(o.Verdict)
}

// detail returns the status and the line that shows it.
func (o *outcome) detail() string {
	const longest = 70
	line := []rune(o.Line)
	if len(line) > longest {
		line = append(line[:longest-1], '…')
	}
	if o.Status == "" || strings.Contains(o.Line, o.Status) {
		return string(line)
	}
	return strings.TrimSpace(strings.TrimPrefix(o.Status, "IBV_WC_") + "  " + string(line))
}

// bad reports whether a run counts as failed: a program must neither hang nor crash nor take wrong bytes for
// right ones, and with strict it must survive.
func (o *outcome) bad(strict bool) bool {
	return o.Verdict != survived && (strict || o.Verdict != failed)
}
