package explain

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// Programs and the kernel print numbers whose meaning depends on the words before them:
//
//	Failed status 12: wr_id 0 syndrom 0x81                              perftest
//	NET/IB : Got completion from peer ... status=12 ... vendor err 129   NCCL
//	failed with status transport retry counter exceeded (12)             nvme, iser
//	Transport retry count exceeded ... (synd 0x15 vend 0x81 ...)         UCX
//	flushed: ... (5/0xf9)                                                rpcrdma
//	cma event RDMA_CM_EVENT_REJECTED, error 28                           rping
//	Connect rejected: status 8 (invalid service ID).                     nvme
//	Unexpected CM event bl blka 8                                        perftest
//	failed, ret = -19                                                    many
const numeral = `[ :=(]{1,3}(0x[0-9a-f]+|[0-9]+)\b`

// compiled returns an expression that is compiled when it is used first. Every softrdma command has this package, and
// few use it.
func compiled(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// numbersInLines holds what precedes a number, the most specific first. The meaning of number n
// in a line is what find returns.
var numbersInLines = []struct {
	pattern func() *regexp.Regexp
	find    func(line string, n uint64) []Entry
}{
	{compiled(`(?i)\b(?:syndrom|vendor[ _]?err(?:or)?|vend(?:or)?(?:[ _]err)?)` + numeral), vendor},
	{compiled(`(?i)\bsyndrome` + numeral), ackSyndrome},
	{compiled(`(?i)\bsynd` + numeral), func(_ string, n uint64) []Entry {
		if s, ok := cqeStatuses[n]; ok {
			return status(uint64(s))
		}
		return nil
	}},
	{compiled(`(?i)\b(?:status|with error|error|err)` + numeral), statusOrRejection},
	{compiled(`(?i)[a-z] \(([0-9]+)(?:/0x[0-9a-f]+)?\)`), statusOrRejection},
	{compiled(`(?i)[a-z] \([0-9]+/(0x[0-9a-f]+)\)`), vendor},
	{compiled(`CM event(?: bl blka)?` + numeral), func(_ string, n uint64) []Entry {
		return keep(numbers(), func(e *Entry) bool { return e.Kind == CMEvent && uint64(e.Number) == n })
	}},
	{compiled(`(?i)\berrno` + numeral), systemError},
	{compiled(`(?:^|[ =:(,])-([0-9]+)\b`), systemError},
}

// statusPhrases are the sentences for statuses of libibverbs, pyverbs, Linux and UCX. The first that is in a
// line counts: that of RNR contains that of other retries.
var statusPhrases = []struct {
	pattern func() *regexp.Regexp
	status  queue.Status
}{
	{compiled(`(?i)rnr retry (count(er)? )?exceeded`), queue.RNRRetryExcErr},
	{compiled(`(?i)retry (count(er)? )?(exceeded|between .* exceeded)`), queue.RetryExcErr},
	{compiled(`(?i)local length error`), queue.LocLenErr},
	{compiled(`(?i)local qp operation error`), queue.LocQPOpErr},
	{compiled(`(?i)local protection error`), queue.LocProtErr},
	{compiled(`(?i)(work request|wr) flush`), queue.WRFlushErr},
	{compiled(`(?i)memory (bind|management) operation error`), queue.MWBindErr},
	{compiled(`(?i)bad response error`), queue.BadRespErr},
	{compiled(`(?i)local access error`), queue.LocAccessErr},
	{compiled(`(?i)remote invalid request error`), queue.RemInvReqErr},
	{compiled(`(?i)remote access error`), queue.RemAccessErr},
	{compiled(`(?i)remote operation(al)? error`), queue.RemOpErr},
}

// failing matches lines that speak of a failure.
var failing = compiled(`(?i)fail|err|couldn|can't|cannot|unable|reject|abort|unexpected|timed? ?out|\bstatus|\bret\b|flush|exceed|syndrom|\bsynd\b|\bvend`)

// perLine bounds what is looked up of a line.
const perLine = 16

// aPhrase is the number of words from which on a query is a line rather than words of a name.
const aPhrase = 5

// inLine returns the entries for what a line of a program or of the kernel says: names, numbers after
// a word that says what they are, sentences for a status, calls that failed, and other sentences. In a log
// numbers and calls count only where the line speaks of a failure.
func inLine(line string, all, more []Entry, log bool) (found []Entry) {
	add := func(entries ...Entry) {
		for _, e := range entries {
			if !slices.ContainsFunc(found, func(f Entry) bool { return f.Kind == e.Kind && f.Name == e.Name }) {
				found = append(found, e)
			}
		}
	}
	if len(strings.Fields(line)) < 2 {
		return nil
	}
	for _, name := range constant().FindAllString(line, perLine) {
		add(keep(all, func(e *Entry) bool { return e.Name == name })...)
		add(keep(more, func(e *Entry) bool { return e.Name == name })...)
	}
	if len(strings.Fields(line)) >= aPhrase {
		add(phrases(line)...)
	}
	failed := !log || failing().MatchString(line)
	if failed {
		add(callsIn(line, !log)...)
	}
	called := slices.ContainsFunc(found, func(e Entry) bool { return e.Kind == CallError })
	for _, p := range numbersInLines {
		if !failed {
			break
		}
		for _, match := range p.pattern().FindAllStringSubmatch(line, perLine) {
			if n, err := strconv.ParseUint(match[1], 0, 31); err == nil {
				add(p.find(line, n)...)
			}
		}
	}
	if called { // with its errno
		found = slices.DeleteFunc(found, func(e Entry) bool { return e.Kind == SystemError })
	}
	if !slices.ContainsFunc(found, func(e Entry) bool { return e.Kind == Status || e.Kind == CallError }) {
		add(messagesIn(line)...)
	}
	return found
}

// phrases returns the entry for a sentence that stands for a status.
func phrases(line string) []Entry {
	for _, p := range statusPhrases {
		if p.pattern().MatchString(line) {
			return status(uint64(p.status))
		}
	}
	return nil
}

// constant matches names such as IBV_WC_SUCCESS.
var constant = compiled(`\b[A-Z][A-Z0-9]*(_[A-Z0-9]+)+\b`)

// status returns the entry of a status that is not success.
func status(n uint64) []Entry {
	if all := statuses(); n > 0 && n < uint64(len(all)) {
		return all[n : n+1 : n+1]
	}
	return nil
}

func vendor(_ string, n uint64) (found []Entry) {
	found = []Entry{vendorError(n)}
	if n < uint64(reason.Count) {
		found = append(found, keep(all(), func(e *Entry) bool { return e.Kind == Reason && uint64(e.Number) == n })...)
	}
	return found
}

func ackSyndrome(line string, n uint64) []Entry {
	if n <= 0xff {
		if name := syndrome(ib.Syndrome(n)); name != "" {
			return keep(syndromes(), func(e *Entry) bool { return e.Name == name })
		}
	}
	return vendor(line, n)
}

// rejected matches lines about a rejected connection: rping's, and the kernel's of NVMe.
var rejected = compiled(`RDMA_CM_EVENT_REJECTED|(?i:connect(ion)? rejected)`)

// statusOrRejection is for numbers after "status" or "error": those of the connection manager are
// reasons of a rejection.
func statusOrRejection(line string, n uint64) []Entry {
	switch {
	case rejected().MatchString(line):
	case strings.Contains(line, "RDMA_CM_EVENT_"):
		return nil
	default:
		return status(n)
	}
	return keep(numbers(), func(e *Entry) bool { return e.Kind == Reject && uint64(e.Number) == n })
}

func systemError(_ string, n uint64) []Entry {
	return keep(systemErrors(), func(e *Entry) bool { return uint64(e.Number) == n })
}
