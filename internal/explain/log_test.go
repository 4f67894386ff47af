package explain

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"softrdma/internal/reason"
)

var aLog = `Starting job 4711 on 2 hosts
[0] NCCL INFO NET/IB : Using [0]rxe0:1/RoCE [RO]; OOB eth0:10.2.0.4<0>
qp 12 state RTS, status 0, 12 of 12 steps done
exit status 1 of step 3, error 5 in build
node-2:57:59 [0] NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> with error 12, opcode 0, len 0, vendor err 129 (Recv)
RDMA_CM_EVENT_ESTABLISHED on id 3, IBV_WC_SUCCESS
[1697.301] ib_md.c:1234 UCX  ERROR ibv_reg_mr(address=0x7f, length=4096, access=0xf) failed: Cannot allocate memory
[1697.302] rc_ep.c:10 UCX  ERROR Remote access error on rxe0:1/RoCE (synd 0x13 vend 0x88 hw_synd 0/0)
nvme nvme0: Connect rejected: status 8 (invalid service ID).
node-2:57:59 [0] NCCL WARN NET/IB : Got completion from peer 10.2.0.9<33092> with error 12, opcode 0, len 0, vendor err 129 (Send)
cma event RDMA_CM_EVENT_REJECTED, error 28
Failed status 10: wr_id 0 syndrom ` + fmt.Sprintf("%#x", int(reason.KeyAccess)) + `
unhandled event: RDMA_CM_EVENT_TIMEWAIT_EXIT, ignoring
ibv_reg_mr ok, lkey 0x100; calling rdma_listen backlog 10
gid: fe80::1 state PORT_ACTIVE (4), iser: session established (2), retry (12), Link up (1)
NCCL INFO NET/IB : rxe0 speed -1
Mr. Smith said at -5
` + "\x1b[31mrxe0: port 1 \x1b[0masync event: IBV_EVENT_PORT_ERR\r\n"

func TestLogFindsTheLinesThatReportFailures(t *testing.T) {
	found, lines, err := Log(strings.NewReader(aLog))
	if err != nil || lines != 18 {
		t.Fatalf("%d lines, %v, expected 18", lines, err)
	}
	var got []string
	for _, f := range found {
		var names []string
		for _, e := range f.Entries {
			names = append(names, e.Name)
		}
		got = append(got, fmt.Sprintf("%v %d %s", f.Lines, f.Count, strings.Join(names, ", ")))
	}
	want := []string{
		"[5 10] 2 IBV_WC_RETRY_EXC_ERR",
		"[7] 1 ibv_reg_mr ENOMEM",
		"[8] 1 IBV_WC_REM_ACCESS_ERR",
		"[9] 1 INVALID_SERVICE_ID, NVMe over RDMA: connection failed",
		"[11] 1 RDMA_CM_EVENT_REJECTED, CONSUMER_REJECT",
		"[12] 1 KEY_ACCESS, IBV_WC_REM_ACCESS_ERR",
		"[18] 1 IBV_EVENT_PORT_ERR",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if text := found[len(found)-1].Text; text != "[31mrxe0: port 1 [0masync event: IBV_EVENT_PORT_ERR" {
		t.Errorf("the text has control characters: %q", text)
	}
}

func TestLogOfManyFindingsIsBounded(t *testing.T) {
	var b bytes.Buffer
	for range 20 {
		fmt.Fprintf(&b, "ibv_reg_mr failed: Bad address %s\n", strings.Repeat("x", 10000))
		fmt.Fprintf(&b, "ibv_dereg_mr failed: Device or resource busy\n")
	}
	found, lines, err := Log(&b)
	if err != nil || lines != 40 || len(found) != 2 || found[1].Count != 20 || len(found[1].Lines) != linesKept {
		t.Fatalf("%d findings in %d lines, %v, expected 2 in 40", len(found), lines, err)
	}
	if n := len(found[0].Text); n > lineMax {
		t.Errorf("the text has %d bytes, expected at most %d", n, lineMax)
	}
}

func FuzzLog(f *testing.F) {
	f.Add([]byte(aLog))
	f.Add([]byte("ibv_\xff err -"))
	f.Fuzz(func(t *testing.T, b []byte) {
		found, lines, err := Log(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range found {
			if len(x.Entries) == 0 || x.Count < 1 || x.Lines[0] < 1 || x.Lines[0] > lines {
				t.Fatalf("finding %+v in %d lines", x, lines)
			}
		}
	})
}

func TestNumbersOfFailuresHaveCauseAndRemedy(t *testing.T) {
	all := numbers()
	for i := range callErrors {
		c := &callErrors[i]
		for _, call := range strings.Fields(c.calls) {
			for _, e := range strings.Fields(c.errno) {
				found, err := Lookup(call + " " + e)
				if err != nil || found[0].Name != call+" "+e {
					t.Errorf("%s %s finds %v, %v", call, e, found, err)
				}
				all = append(all, found...)
			}
		}
	}
	for i := range messages {
		m := &messages[i]
		all = append(all, Entry{Kind: Message, Name: m.name, Meaning: m.meaning, Cause: m.cause, Look: m.look, Remedy: m.remedy, Clause: m.clause})
	}
	for _, e := range all {
		if !slices.Contains([]Kind{Reject, Terminate, CallError, Message}, e.Kind) {
			continue
		}
		for what, s := range map[string]string{"meaning": e.Meaning, "cause": e.Cause, "place to look": e.Look, "remedy": e.Remedy} {
			if !strings.HasSuffix(s, ".") {
				t.Errorf("%s %s: %s is not a sentence: %q", e.Kind, e.Name, what, s)
			}
		}
		if e.Clause == "" {
			t.Errorf("%s %s has no clause", e.Kind, e.Name)
		}
	}
}

// A log of the same failures takes no longer than reading it.
func BenchmarkLog(b *testing.B) {
	text := strings.Repeat("Failed status 12: wr_id 0 syndrom 0x81\n", 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, _, err := Log(strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
