//go:build interop && linux

package console

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"softrdma/internal/testenv/chromium"
)

// feed is a script that makes work(n), which shows n snapshots with other rates, and scroll(n), which scrolls
// the table n times by half of its height.
const feed = `(async () => {
	const text = await (await fetch("/api/snapshot", { headers: { "Softrdma-Token": sessionStorage.getItem("token") } })).text();
	const { show } = await import("/app.js");
	const frame = () => new Promise(requestAnimationFrame);
	let i = 0;
	globalThis.work = async (n) => {
		for (const end = i + n; i < end; i++) {
			const s = JSON.parse(text);
			for (const p of s.processes) for (const d of p.devices) for (const q of d.queue_pairs) q.rates.sent_bytes = (q.qpn * 7919 + i * 104729) % 1e9;
			await show(s);
			await frame();
			await frame();
		}
	};
	globalThis.scroll = async (n) => {
		const rows = document.querySelector(".rows");
		for (let k = 0; k < n; k++) { rows.scrollTop += rows.clientHeight / 2; await frame(); await frame(); }
		return rows.scrollTop;
	};
	await work(2);
})()`

// TestProgramConsoleKeepsPaceWith10000QueuePairs measures the processor time that the page's main thread needs,
// which does not depend on what else the machine does. The browser draws 60 frames a second unless the page is
// busy, so 30 remain if the updates of a second take less than half of it.
func TestProgramConsoleKeepsPaceWith10000QueuePairs(t *testing.T) {
	const updates, frames = 5, 30
	b := chromium.NewTab(t)
	encoded, err := json.Marshal(programs(someNames, 100, 100, 1))
	if err != nil {
		t.Fatal(err)
	}
	p := pretend(t, func(int) any { return json.RawMessage(encoded) })
	b.Call("Performance.enable", map[string]any{"timeDomain": "threadTicks"}, nil)
	b.Call("HeapProfiler.enable", nil, nil)
	took := func(expression string, n int, out any) time.Duration {
		before := b.Metrics()["TaskDuration"]
		b.Evaluate(expression, out)
		return time.Duration((b.Metrics()["TaskDuration"] - before) / float64(n) * float64(time.Second))
	}
	nodes := func() float64 { // those that are garbage count until they are collected
		b.Call("HeapProfiler.collectGarbage", nil, nil)
		return b.Metrics()["Nodes"]
	}
	for _, c := range []struct{ view, search string }{{"objects", ""}, {"objects", "rping"}, {"map", ""}, {"map", "10.0.0.7"}, {"connection", ""}, {"faults", ""}} {
		b.Open(p.url(c.view))
		b.Await(ready)
		b.Evaluate(`document.getElementById("search").value = "`+c.search+`"`, nil)
		b.Evaluate(feed, nil)
		before := nodes()
		update := took(fmt.Sprintf("work(%d)", updates), updates, nil)
		after := nodes()
		t.Logf("%s %q: %v of each second, %v nodes", c.view, c.search, update, after)
		if update > 500*time.Millisecond {
			t.Errorf("%s %q: an update takes %v, expected at most half a second", c.view, c.search, update)
		}
		if after > before+500 || after > 5000 {
			t.Errorf("%s %q: %v nodes, and %v before", c.view, c.search, after, before)
		}
		if c.view != "objects" {
			continue
		}
		b.Await(`document.querySelector(".push[role=status]").textContent.includes("10000 rows")`)
		var top float64
		frame := took(fmt.Sprintf("scroll(%d)", frames), frames, &top)
		t.Logf("%s %q: %v for each step of scrolling", c.view, c.search, frame)
		if frame > time.Second/30 || top < 3000 {
			t.Errorf("%s %q: scrolling to %v takes %v for each step, expected less than a thirtieth second", c.view, c.search, top, frame)
		}
	}
}

// TestProgramConsoleKeepsItsMemory runs the page for an hour of its own clock, which passes as fast as it can, and
// opens another view every ten seconds.
func TestProgramConsoleKeepsItsMemory(t *testing.T) {
	const round = 60 * time.Second // in which each view is shown
	b := chromium.NewTab(t)
	p := pretend(t, func(second int) any {
		s := programs(someNames, 6, 4, second)
		s.Fabrics = append(s.Fabrics, fabrics(t, "ring:5", second))
		return s
	})
	b.Open(p.url("map"))
	b.Await(ready)
	b.Call("Performance.enable", nil, nil)
	b.Call("HeapProfiler.enable", nil, nil)
	b.Evaluate(`let i = 0; setInterval(() => { location.hash = ["map", "objects", "objects/mrs", "connection", "faults", "fabric"][i++ % 6]; }, 10000)`, nil)
	pass := func(d time.Duration) map[string]float64 {
		b.Call("Emulation.setVirtualTimePolicy", map[string]any{"policy": "pauseIfNetworkFetchesPending", "budget": d.Milliseconds(),
			"maxVirtualTimeTaskStarvationCount": 10000}, nil)
		b.Event("Emulation.virtualTimeBudgetExpired")
		b.Call("HeapProfiler.collectGarbage", nil, nil)
		return b.Metrics()
	}
	early := pass(6 * round)
	late := pass(54 * round)
	if n := p.snapshots(); n < 3000 {
		t.Errorf("the page has asked for %d snapshots in an hour, expected one each second", n)
	}
	t.Logf("heap of %.0f bytes after 6 minutes, %.0f after 60", early["JSHeapUsedSize"], late["JSHeapUsedSize"])
	if a, b := early["JSHeapUsedSize"], late["JSHeapUsedSize"]; b > a*1.1+256<<10 {
		t.Errorf("the heap has %.0f bytes after 6 minutes and %.0f after 60", a, b)
	}
	for _, name := range []string{"Nodes", "JSEventListeners", "Documents"} {
		if early[name] != late[name] {
			t.Errorf("%s: %v after 6 minutes and %v after 60", name, early[name], late[name])
		}
	}
}
