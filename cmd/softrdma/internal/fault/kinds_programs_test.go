//go:build interop && linux

package fault

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// A victim is a program of others with a server and a client, or one of several ranks, which move some hundred messages
// of a few kilobytes.
type victim struct {
	name, server, client string

	manager bool // it connects by librdmacm, perftest with -R
	waits   bool // its client waits without end after a failed completion
}

// The seconds after which a client is ended: one that is expected to end by itself, even on a busy machine, and one that
// waits without end.
const (
	untilHung  = 120
	untilEnded = 20
)

// victims are the programs. $A is the address, $P a free port, and $E the program of ranks. Timeouts are short.
var victims = []victim{
	{"ib_write_bw", "ib_write_bw $R -F -p $P -n 300 -s 8192 -u 12", "ib_write_bw $R -F -p $P -n 300 -s 8192 -u 12 $A", true, false},
	{"rping", "rping -s -a $A -p $P -C 300 -S 4000 -V", "rping -c -a $A -p $P -C 300 -S 4000 -V", true, false},
	{"ucx_perftest", "ucx_perftest -p $P", "ucx_perftest $A -p $P -t tag_bw -s 8192 -n 300 -w 10", false, false},
	{"openmpi", "true", "mpirun.openmpi --oversubscribe -np 2 --mca pml ucx --mca osc ucx $E 1", false, false},
	{"fio", "fio --thread --name=server --ioengine=rdma --port=$P --filename=rdma --rw=read --bs=8k --size=2400k --iodepth=64",
		"fio --thread --name=client --ioengine=rdma --hostname=$A --port=$P --rw=write --bs=8k --size=2400k --iodepth=8 --verb=write", true, true},
}

// needVictims skips the test where a program is missing. It returns the path of the program of ranks, which verifies
// what it receives.
func needVictims(t *testing.T) (exchange string) {
	t.Helper()
	clitest.NeedPrograms(t, "ib_write_bw", "rping", "ucx_perftest", "mpirun.openmpi", "mpicc.openmpi", "fio", "tshark")
	exchange = filepath.Join(t.TempDir(), "exchange")
	const source = "../../../../interop/suites/programs/testdata/exchange.c"
	if out, err := exec.Command("mpicc.openmpi", "-O1", "-o", exchange, source).CombinedOutput(); err != nil {
		t.Fatalf("mpicc.openmpi: %v: %s", err, out)
	}
	return exchange
}

// both is a script that runs a victim. Its exit code is that of the end that has failed. A server that waits for a client
// that has gone is ended, and so is a client of fio, which waits without end after a failed completion.
const both = `export UCX_TLS=rc_v,ud_v,self UCX_WARN_UNUSED_ENV_VARS=n UCX_RC_TIMEOUT=100ms UCX_RC_RETRY_COUNT=5
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
sh -c "exec %s" & server=$!
sleep 2
timeout -k 1 $L %s
status=$?
i=0
while kill -0 $server 2>/dev/null && [ $i -lt 50 ]; do
	sleep .1
	i=$((i + 1))
done
kill -9 $server 2>/dev/null
wait $server
other=$?
[ $status != 0 ] || [ $other = 137 ] || status=$other
exit $status`

// run runs the victim under rules of one YAML file, and its client for limit seconds at most. It returns how it has
// ended, the comments of faults that tshark finds in the capture, sorted, and the capture.
func (v *victim) run(t *testing.T, exchange, rules string, limit int, options ...string) (o *outcome, comments []string, packets string) {
	t.Helper()
	dir, addr := t.TempDir(), clitest.LoopbackDevice(t)
	file := filepath.Join(dir, "faults.yaml")
	packets = filepath.Join(dir, "x.pcapng")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer("$A", addr, "$P", clitest.FreePort(t), "$E", exchange, "$L", strconv.Itoa(limit), "$R", strings.Join(options, " ")).
		Replace(fmt.Sprintf(both, v.server, v.client))
	p := clitest.Start(t, "exec", "-v", "-d", addr, "--pcap", packets, "--faults", file, "--", "sh", "-c", script)
	<-p.Ended // the script has limits
	o = &outcome{Code: p.ExitCode()}
	text := p.Stdout.String() + "\n" + p.Stderr.String()
	o.output = excerpt(strings.NewReader(text), int64(len(text)))
	o.judge(o.Code == 124 || o.Code == 128+int(syscall.SIGKILL), differs) // timeout's, with -k
	if status, _ := o.status(); status != "" {                            // also of a program that ends in order, or aborts
		o.Status = status
	}
	comments = shown.FindAllString(inCapture(t, packets, `frame.comment contains "fault rule"`, "frame.comment"), -1)
	slices.Sort(comments)
	return o, comments, packets
}

// inCapture returns a field of the packets that tshark finds by a filter.
func inCapture(t *testing.T, packets, filter, field string) string {
	t.Helper()
	out, err := exec.Command("tshark", "-r", packets, "-Y", filter, "-T", "fields", "-e", field).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// shown matches the comment of a hit.
var shown = regexp.MustCompile(`fault rule 1: [a-z-]+ match \d+`)

// Selectors of the packets and requests with data, which each victim has.
const (
	data     = "direction: sent, opcode: [write, send, read response], min_size: 1000"
	requests = "opcode: [write, send, read request]"
)

// Each kind of fault is in the capture, where tshark finds it, and ends the programs with the status that the standard
// asks for.
func TestProgramShowsEachFault(t *testing.T) {
	exchange := needVictims(t)
	const ok, retries = "survived", "IBV_WC_RETRY_EXC_ERR"
	kinds := []struct{ name, rule, want string }{
		{"drop", "select: {" + data + "}\n    action: drop", retries},
		{"black-hole", "select: {" + data + "}\n    action: black-hole\n    above: 1000", retries},
		{"corrupt", "select: {" + data + "}\n    action: corrupt", retries},
		{"answer: remote access", "select: {" + requests + ", nth: 50}\n    action: answer\n    answer: remote access", "IBV_WC_REM_ACCESS_ERR"},
		{"answer: remote operational", "select: {" + requests + ", nth: 50}\n    action: answer\n    answer: remote operational", "IBV_WC_REM_OP_ERR"},
		{"answer: invalid request", "select: {" + requests + ", nth: 50}\n    action: answer\n    answer: invalid request", "IBV_WC_REM_INV_REQ_ERR"},
		{"answer: sequence", "select: {" + requests + ", nth: 50}\n    action: answer\n    answer: sequence", ok},
		{"answer: rnr", "select: {" + requests + ", nth: 50}\n    action: answer\n    answer: rnr\n    time: 1ms", ok},
		{"complete: loc_prot_err", "select: {completion: [rdma_write, send], nth: 2}\n    action: complete\n    status: loc_prot_err", "IBV_WC_LOC_PROT_ERR"},
		{"fail: ibv_reg_mr", "select: {call: ibv_reg_mr}\n    action: fail\n    errno: ENOMEM", "failed"},
		{"delay", "select: {" + data + ", every: 20}\n    action: delay\n    time: 1ms\n    jitter: 1ms", ok},
		{"duplicate", "select: {" + data + ", every: 20}\n    action: duplicate", ok},
		{"reorder", "select: {" + data + ", every: 20}\n    action: reorder", ok},
		{"mark", "select: {" + data + ", every: 20}\n    action: mark", ok},
		{"rate", "select: {" + data + "}\n    action: rate\n    rate: 50000000\n    queue: 10000000", ok},
		{"stall", "select: {direction: received, every: 50}\n    action: stall\n    time: 1ms", ok},
		{"slow-memory", "select: {" + requests + ", every: 50}\n    action: slow-memory\n    time: 1ms", ok},
		{"withhold", "select: {every: 2}\n    action: withhold\n    time: 1ms", ok},
		{"reject", "select: {message: REQ}\n    action: reject\n    reason: 28", "RDMA_CM_EVENT_REJECTED"},
	}
	// fio sets the RNR retries of its connections to 0. UCX under Open MPI tries to register again without end.
	others := map[string]string{"answer: rnr fio": "IBV_WC_RNR_RETRY_EXC_ERR", "fail: ibv_reg_mr openmpi": "hung"}
	head, line := "| fault |", "|---|"
	for i := range victims {
		head, line = head+" `"+victims[i].name+"` |", line+"---|"
	}
	table := head + "\n" + line + "\n"
	for _, k := range kinds {
		table += "| `" + k.name + "` |"
		for i := range victims {
			v, name := &victims[i], k.name+" "+victims[i].name
			var options []string
			if k.name == "reject" {
				if !v.manager {
					table += " no connection manager |"
					continue
				}
				options = append(options, "-R")
			}
			t.Run(name, func(t *testing.T) {
				want, limit := cmp.Or(others[name], k.want), untilHung
				if v.waits && want != ok || want == string(hung) {
					limit = untilEnded
				}
				o, comments, packets := v.run(t, exchange, "rules:\n  - name: one\n    "+k.rule+"\n", limit, options...)
				found := cmp.Or(o.Status, string(o.Verdict))
				// A program that aborts may do so before its capture has the last packet.
				if found != want || len(comments) == 0 && o.Code < 128 {
					t.Errorf("found %s with %d hits, %d of them in the capture, expected %s: %s\n%s", found, o.Hits, len(comments), want, o.Line, o.output)
				}
				if k.name == "reject" && !strings.HasPrefix(inCapture(t, packets, "infiniband.cm.rej.reason", "infiniband.cm.rej.reason"), "0x001c\n") {
					t.Error("expected a REJ with reason 28 in the capture, found none")
				}
				table += " " + strings.TrimPrefix(found, "IBV_WC_") + " |"
			})
		}
		table += "\n"
	}
	t.Logf("\n%s", table)
}

// The same rules, seed and traffic hit the same matches; another seed hits others. Packets that arrive twice make nothing
// be sent again.
func TestProgramTwiceWithOneSeedHasTheSameHits(t *testing.T) {
	exchange := needVictims(t)
	for i := range victims {
		v := &victims[i]
		t.Run(v.name, func(t *testing.T) {
			var runs [3][]string
			for i, seed := range []int{7, 7, 8} {
				o, comments, _ := v.run(t, exchange, fmt.Sprintf("seed: %d\nrules:\n  - name: twice\n    select: {%s, probability: 0.1, count: 15}\n    action: duplicate\n", seed, data), untilHung)
				if o.Verdict != survived || len(comments) < 10 {
					t.Fatalf("%s with %d hits:\n%s", o.Verdict, len(comments), o.output)
				}
				runs[i] = comments
			}
			if !slices.Equal(runs[0], runs[1]) || slices.Equal(runs[0], runs[2]) {
				t.Errorf("hits with one seed %q and %q, with another %q", runs[0], runs[1], runs[2])
			}
			t.Logf("%s: %d hits twice, as %q", v.name, len(runs[0]), runs[0][:3])
		})
	}
}
