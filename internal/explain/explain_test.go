package explain

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

func TestEveryEntryIsComplete(t *testing.T) {
	names := map[string]bool{}
	for _, e := range All() {
		if names[e.Name] && e.Kind == Reason {
			t.Errorf("%s is listed twice", e.Name)
		}
		names[e.Name] = true
		for what, s := range map[string]string{"meaning": e.Meaning, "cause": e.Cause, "place to look": e.Look, "remedy": e.Remedy, "clause": e.Clause} {
			if s == "" {
				t.Errorf("%s has no %s", e.Name, what)
			}
			if strings.Contains(s, "%") || strings.Contains(s, "\n") {
				t.Errorf("%s: %s is %q", e.Name, what, s)
			}
		}
		for what, s := range map[string]string{"cause": e.Cause, "place to look": e.Look, "remedy": e.Remedy} {
			if !strings.HasSuffix(s, ".") {
				t.Errorf("%s: %s is not a sentence: %q", e.Name, what, s)
			}
		}
		if p := e.String(); !strings.HasPrefix(p, e.Name) || !strings.Contains(p, e.Remedy) {
			t.Errorf("%s prints as %q", e.Name, p)
		}
	}
	for _, e := range All() {
		for _, s := range e.See {
			if !names[s] {
				t.Errorf("%s refers to %s, which is unknown", e.Name, s)
			}
		}
	}
}

func TestEveryReasonAndStatusIsExplained(t *testing.T) {
	kinds := map[Kind]int{}
	for _, e := range All() {
		kinds[e.Kind]++
	}
	reasons := len(slices.Collect(reason.All()))
	if kinds[Reason] != reasons || kinds[Status] != int(queue.Statuses) {
		t.Errorf("%d reasons and %d statuses, expected %d and %d", kinds[Reason], kinds[Status], reasons, queue.Statuses)
	}
	total := 0
	for _, room := range texts {
		total += len(room)
	}
	if total != reasons {
		t.Errorf("the rooms hold %d texts, expected one for each of the %d reasons", total, reasons)
	}
	for s := range 256 {
		known := ib.Syndrome(s).IsACK() || ib.Syndrome(s).IsRNR() || s >= 0x60 && s <= 0x64
		if got := syndrome(ib.Syndrome(s)) != ""; got != known {
			t.Errorf("syndrome %#02x known: %v, expected %v", s, got, known)
		}
	}
}

// number matches a query for a number. Such a query returns the most likely
// meanings first; the table lists only these.
var number = regexp.MustCompile(`^ *(0x)?[0-9a-f]+ *$`)

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		query string
		want  string // names, in order
	}{
		{"9", "IBV_WC_REM_INV_REQ_ERR IBV_EVENT_PORT_ACTIVE INVALID_TRANSPORT_TYPE RDMA_CM_EVENT_ESTABLISHED IBV_QPT_XRC_SEND IBV_WR_SEND_WITH_INV IBV_WC_ATOMIC_WRITE RNR_TIMER_9"},
		{"12", "IBV_WC_RETRY_EXC_ERR IBV_EVENT_PKEY_CHANGE INVALID_GID RDMA_CM_EVENT_MULTICAST_JOIN RNR_TIMER_12"},
		{" 13 ", "IBV_WC_RNR_RETRY_EXC_ERR"},
		{"28", "CONSUMER_REJECT RNR_TIMER_28"},
		{"consumer reject", "CONSUMER_REJECT"},
		{"CONSUMER_REJECT", "CONSUMER_REJECT"},
		{"130", "EXIT_130"},
		{"0x0100", "RDMAP: invalid STag"},
		{"0x62", "NAK_REMOTE_ACCESS_ERROR"},
		{"0x2c", "NAK_RNR"},
		{"0x1f", "ACK"},
		{"IBV_WC_RETRY_EXC_ERR", "IBV_WC_RETRY_EXC_ERR"},
		{"ibv_wc_retry_exc_err", "IBV_WC_RETRY_EXC_ERR"},
		{"RETRY_EXC_ERR", "IBV_WC_RETRY_EXC_ERR"},
		{"retry exceeded", "RETRY_EXCEEDED IBV_WC_RETRY_EXC_ERR"},
		{"RETRY_EXCEEDED", "RETRY_EXCEEDED"},
		{"Retry-Exc", "RETRY_EXCEEDED IBV_WC_RETRY_EXC_ERR"},
		{"KEY_BOUNDS", "KEY_BOUNDS"},
		{"key bounds", "KEY_BOUNDS"},
		{"rnr retry", "RNR_RETRY_EXCEEDED IBV_WC_RNR_RETRY_EXC_ERR"},
		{"wr flush", "IBV_WC_WR_FLUSH_ERR"},
		{"flushed", "FLUSHED"},
		{"IBV_EVENT_SQ_DRAINED", "IBV_EVENT_SQ_DRAINED"},
		{"sq drained", "IBV_EVENT_SQ_DRAINED"},
		{"icrc", "PACKET_ICRC"},
		{"bounds", "KEY_BOUNDS LOCAL_BOUNDS"},
	} {
		found, err := Lookup(c.query)
		if err != nil {
			t.Errorf("%q: %v", c.query, err)
			continue
		}
		var names []string
		for _, e := range found {
			names = append(names, e.Name)
		}
		if got := strings.Join(names, " "); got != c.want && !(number.MatchString(c.query) && strings.HasPrefix(got+" ", c.want+" ")) {
			t.Errorf("%q finds %s, expected %s", c.query, got, c.want)
		}
	}
}

func TestLookupEveryNameFindsItself(t *testing.T) {
	for _, e := range All() {
		for _, q := range []string{e.Name, strings.ToLower(e.Name)} {
			found, err := Lookup(q)
			if err != nil || len(found) != 1 || found[0].Name != e.Name {
				t.Errorf("%q finds %d entries, %v", q, len(found), err)
			}
		}
		words := strings.ReplaceAll(e.Name, "_", " ")
		found, err := Lookup(words)
		if err != nil || !slices.ContainsFunc(found, func(f Entry) bool { return f.Name == e.Name }) {
			t.Errorf("%q does not find %s: %v", words, e.Name, err)
		}
	}
}

func TestLookupBySentence(t *testing.T) {
	found, err := Lookup("no process listens")
	if err != nil || len(found) != 1 || found[0].Name != "SEND_REFUSED" {
		t.Errorf("found %v, %v, expected SEND_REFUSED", found, err)
	}
}

func TestLookupFindsNumbersOfASubnet(t *testing.T) {
	for query, want := range map[string]string{
		"trap link state": "TRAP_LINK_STATE_CHANGE", "144": "TRAP_CAPABILITY_CHANGE", "258": "TRAP_QKEY_VIOLATION", "66": "TRAP_MULTICAST_GROUP_CREATED",
		"armed": "PORT_STATE_ARMED", "port_state_init": "PORT_STATE_INIT", "polling": "PHYSICAL_POLLING", "sm_standby": "SM_STANDBY",
	} {
		found, err := Lookup(query)
		if err != nil || !slices.ContainsFunc(found, func(e Entry) bool { return e.Name == want && e.Meaning != "" }) {
			t.Errorf("%q: %v, %v; expected %s", query, found, err, want)
		}
	}
}

func TestLookupMissNamesTheNearest(t *testing.T) {
	_, err := Lookup("RETRY_EXX_ERR")
	var miss *NotFoundError
	if !errors.As(err, &miss) || len(miss.Nearest) == 0 || miss.Nearest[0] != "IBV_WC_RETRY_EXC_ERR" {
		t.Errorf("%v, expected IBV_WC_RETRY_EXC_ERR as the nearest", err)
	}
	if !strings.Contains(err.Error(), "IBV_WC_RETRY_EXC_ERR") || !strings.Contains(err.Error(), `"RETRY_EXX_ERR"`) {
		t.Errorf("error is %q", err)
	}
	for _, q := range []string{"", "  ", "99999", "-10000", "0xfffff", "_-_", strings.Repeat("x", 10000)} {
		if found, err := Lookup(q); !errors.As(err, &miss) || len(found) != 0 {
			t.Errorf("%.20q: found %v, %v, expected a miss", q, found, err)
		}
	}
}

func FuzzLookup(f *testing.F) {
	f.Add("retry exceeded")
	f.Add("0x")
	f.Add("é_9")
	f.Fuzz(func(t *testing.T, q string) {
		found, err := Lookup(q)
		if (err == nil) != (len(found) > 0) {
			t.Fatalf("%d entries and error %v", len(found), err)
		}
	})
}
