package fabric

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/control"
)

// fromFile starts a fabric that a file describes.
func fromFile(t *testing.T, text string) *clitest.Process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.topo")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return up(t, file)
}

// Nodes of which only port 2 has a cable, nodes of the same description, and a node whose
// description looks like another node's port.
const awkward = `Switch 8 "S1" # "leaf"
[1] "A"[2]
[2] "B"[2]
[3] "C"[1]
[4] "C"[2]
[5] "D"[1]

Ca 2 "A" # "node HCA-1"

Ca 2 "B" # "node HCA-1"

Ca 2 "C" # "C"

Ca 1 "D" # "C:2"
`

func TestPrintedNamesAreAccepted(t *testing.T) {
	p := fromFile(t, awkward)
	printed := p.Stdout.String()
	expect(t, printed, "adapters A:2 (10.77.0.2) to D (10.77.0.7)", "softrdma fabric trace A:2 D\n", "-d ib:fab0/A:2 --", "-d ib:fab0/D --")

	var links []control.Link
	if err := json.Unmarshal([]byte(clitest.Run(t, "fabric", "links", "-i", "0", "--json")), &links); err != nil || len(links) != 5 {
		t.Fatalf("%v: %+v", err, links)
	}
	var names []string
	for i := range links {
		to := &links[i].Ends[1]
		expect(t, clitest.Run(t, "fabric", "trace", "leaf", to.Name), "to "+to.Name+" (LID ", "arrives at port ")
		expect(t, clitest.Run(t, "fabric", "counters", to.Name), "PortXmitPkts")
		if a, err := attach.ParseAddress("fab0/" + to.Name); err != nil || a.Node != to.Node || int(a.Port) != to.Port {
			t.Errorf("device ib:fab0/%s: %+v, %v; expected %s port %d", to.Name, a, err, to.Node, to.Port)
		}
		names = append(names, to.Name)
	}
	if got := strings.Join(names, " "); got != "A:2 B:2 C:1 C:2 D" {
		t.Errorf("ports at the far ends: %s", got)
	}
	expect(t, clitest.Run(t, "fabric", "trace", "A", "B"), "from A:2 (LID ", "to B:2 (LID ")
	clitest.Start(t, "fabric", "trace", "A", "node HCA-1").Fails(cli.ExitFailed, "nodes A and B are both called")
	clitest.Start(t, "fabric", "trace", "A", "0x0000000000100006").Fails(cli.ExitFailed, "has 2 ports: expected one of them, like C:1")
	clitest.Run(t, "fabric", "link", "down", "B")
	expect(t, clitest.Run(t, "fabric", "status"), "4 active, 1 cut")
}

func TestGapsOfAFileAreWarnedAbout(t *testing.T) {
	var b strings.Builder
	b.WriteString("Switch 20 \"S1\"\n[1] \"A\"[1]\n[2] \"B\"[1]\n")
	for _, port := range []string{"3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14"} {
		b.WriteString("[" + port + "] \"gone-" + port + "\"[1]\n")
	}
	b.WriteString("\nCa 1 \"A\"\n\nCa 1 \"B\"\n")
	p := fromFile(t, b.String())
	expect(t, p.Stdout.String(), "1 switch, 2 adapters, 2 links")
	p.PrintsError("and 2 more\n") // it may come after the other output
	errors := p.Stderr.String()
	expect(t, errors, "softrdma: warning: ", `cluster.topo:4:5: no node "gone-3" has a record in this file: port 3 of "S1" is left without a link`, "softrdma: warning: and 2 more\n")
	if n := strings.Count(errors, "\n"); n != 11 {
		t.Errorf("%d lines of warnings, expected 11:\n%s", n, errors)
	}
}
