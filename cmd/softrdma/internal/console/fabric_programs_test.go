//go:build interop && linux

package console

import (
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv/chromium"
)

// fabricURL starts a console and a fabric, and returns the URL of the fabric's view.
func fabricURL(t *testing.T, fabric ...string) string {
	t.Helper()
	t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(clitest.ShortDir(t), "control"))
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	c := clitest.Start(t, "console")
	c.Prints("#token=")
	clitest.Start(t, append([]string{"fabric", "up", "--name", "blue"}, fabric...)...).Prints("active")
	return strings.TrimSpace(c.Stdout.String()) + "/fabric"
}

// text is an expression for whether a part of the page has a text.
func text(part, has string) string {
	return `document.querySelector("` + part + `")?.textContent.includes("` + has + `")`
}

// press clicks a button by its text, or an element by a part of its label.
func press(b *chromium.Tab, name string) {
	find := `[...document.querySelectorAll("button, [role=button]")].find((e) => e.textContent === "` + name +
		`" || e.getAttribute("aria-label")?.includes("` + name + `"))`
	b.Await(find)
	b.Evaluate(find+`.dispatchEvent(new MouseEvent("click", { bubbles: true }))`, nil)
}

// TestProgramConsoleCutsAndRepairsACable cuts a cable of a route, sees the manager find another, and repairs it.
func TestProgramConsoleCutsAndRepairsACable(t *testing.T) {
	b := chromium.NewTab(t)
	b.Open(fabricURL(t, "--topology", "fat-tree:k=4"))
	b.Await(text("main", "48 active"))
	press(b, "Trace")
	b.Await(text(".route", "6 hops"))
	var first, used string
	b.Evaluate(`document.querySelector(".route ul").textContent`, &first)
	b.Evaluate(`[...document.querySelectorAll(".edge.used")].map((e) => e.getAttribute("aria-label")).find((l) => /spine.*core|core.*spine/.test(l))`, &used)
	press(b, strings.Split(used, ",")[0])
	b.Await(text(".cables", "Cut the cable"))
	b.Screenshot("fabric-chosen")
	press(b, "Cut the cable")
	b.Await(text(".log", "active → cut"))
	b.Await(text("main", "47 active, 1 cut"))
	b.Await(text(".log", "new route"))
	b.Await(text(".route", "6 hops"))
	b.Screenshot("fabric-cut")
	var second string
	b.Evaluate(`document.querySelector(".route ul").textContent`, &second)
	if first == second {
		t.Errorf("the route is the one before: %s", first)
	}
	press(b, "Repair the cable")
	b.Await(text(".log", "→ active"))
	b.Await(text("main", "48 active"))
	b.Await(`document.querySelectorAll(".edge.broken").length === 0`)
	b.Screenshot("fabric-repaired")

	// An adapter has one cable: nothing leads around it.
	press(b, " – node-0,")
	press(b, "Cut the cable")
	b.Await(text(".route .bad", "lost at node-0"))
	press(b, "Repair the cable")
	b.Await(text(".route", "6 hops"))
}

// TestProgramConsoleDrawsPausesOfAnEthernet makes a deadlock of pauses on a ring. The hosts wait for it.
func TestProgramConsoleDrawsPausesOfAnEthernet(t *testing.T) {
	b := chromium.NewTab(t)
	b.Open(fabricURL(t, "--ethernet", "--topology", "ring:5"))
	b.Await(text(".circles", "The tables allow one"))
	clitest.Run(t, "fabric", "load", "--shift", "2", "--sl", "3", "--size", "2048", "--packets", "20000")
	b.Await(text(".circles", "switch-0:1 priority 3"))
	b.Await(`document.querySelectorAll(".edge.dead").length === 5`)
	b.Await(`document.querySelectorAll(".edge.still").length === 10`)
	b.Screenshot("fabric-pauses")
}

// TestProgramConsoleDrawsADeadlock makes one with credits of one lane on a ring.
func TestProgramConsoleDrawsADeadlock(t *testing.T) {
	b := chromium.NewTab(t)
	b.Open(fabricURL(t, "--topology", "ring:5", "--routing", "minhop", "--vls", "1"))
	b.Await(text(".circles", "The tables allow one"))
	b.Await(`document.querySelectorAll(".edge.loop").length === 5`)
	b.Screenshot("fabric-circle")
	clitest.Run(t, "fabric", "load", "--shift", "2", "--size", "2048", "--packets", "5000")
	b.Await(text(".circles", "Deadlock: packets"))
	b.Await(`document.querySelectorAll(".edge.dead").length === 5`)
	b.Await(text(".log", "deadlock of 5 lanes"))
	b.Scheme("dark")
	b.Screenshot("fabric-deadlock")
	press(b, `switch-0:`)
	press(b, "Cut the cable")
	b.Await(text(".log", "the deadlock has ended"))
}

// TestProgramConsoleMapsAFabric shows programs at the switches of their ports, with what the cables carry.
func TestProgramConsoleMapsAFabric(t *testing.T) {
	b := chromium.NewTab(t)
	url := fabricURL(t, "--topology", "fat-tree:k=4")
	port := clitest.FreePort(t)
	clitest.Start(t, "perf", "write", "bw", "--keep", "-d", "ib:blue/node-0", "-p", port).Prints("waiting")
	clitest.Start(t, "perf", "write", "bw", "-d", "ib:blue/node-15", "-p", port, "-D", "600", "127.0.0.1").Prints("queue pair")
	b.Open(strings.TrimSuffix(url, "fabric") + "map")
	b.Await(label("blue/node-0:1"))
	b.Await(label("8 of 8 ports active"))
	b.Await(label("1 cable"))
	b.Await(label("MB/s, 1 cable"))
	for _, scheme := range []string{"light", "dark"} {
		b.Scheme(scheme)
		check(t, b, "map of a fabric "+scheme)
		b.Screenshot("map-fabric-" + scheme)
	}
	b.Evaluate(`const s = document.getElementById("search"); s.value = "core-0-1"; s.dispatchEvent(new Event("input"))`, nil)
	b.Await(label("core-0-1, switch of fabric blue"))
	b.Screenshot("map-fabric-search")
	press(b, "core-0-1, switch of fabric blue")
	b.Await(text("main", "Fabric blue"))
}

// label is an expression for whether a thing in a drawing has a label with a text.
func label(has string) string {
	return `[...document.querySelectorAll("svg [aria-label]")].some((e) => e.getAttribute("aria-label").includes("` + has + `"))`
}
