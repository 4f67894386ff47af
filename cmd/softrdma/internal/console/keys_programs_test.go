//go:build interop && linux

package console

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"softrdma/internal/testenv/chromium"
)

// focused describes what has the focus, and whether that shows: by an outline, or by the line of a drawing.
const focused = `(() => {
	const e = document.activeElement, s = getComputedStyle(e), b = e.getBoundingClientRect();
	if (e === document.body || e.id === "view") return { name: "", shown: true };
	const line = e.querySelector?.(":scope > rect, :scope > .wire");
	const drawn = e instanceof SVGElement && line && getComputedStyle(line).stroke === getComputedStyle(document.querySelector("nav a[aria-current]")).color;
	const name = e.getAttribute("aria-label") || e.textContent || e.id || e.className || e.tagName;
	return { name: name.slice(0, 40), shown: (s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 || drawn) && b.bottom > 0 && b.top < innerHeight };
})()`

// TestProgramConsoleIsUsedByKeys goes through all views with the tab key, and uses the keys that the help lists.
func TestProgramConsoleIsUsedByKeys(t *testing.T) {
	b := chromium.NewTab(t)
	p := pretend(t, func(second int) any {
		s := programs(someNames, 6, 4, second)
		s.Fabrics = append(s.Fabrics, fabrics(t, "ring:5", second))
		return s
	})
	for view, want := range map[string][]string{
		"map": {"ib_write_bw  1000", "ib_write_bw to rping", "switch-0"}, "objects": {"Devices", "QPN", "0x000100"},
		"connection": {"Save packets as pcapng"}, "faults": {"Device", "lossy-link", "Copy lossy-link as YAML"},
		"fabric": {"Ports", "switch switch-0", "switch-0:1 –", "From", "Trace"}, "fabric/999/blue/ports": {"Drawing", "Port", "switch-"},
	} {
		b.Open(p.url(view))
		b.Await(ready)
		var names []string
		for {
			b.Key("Tab", 9)
			var f struct {
				Name  string
				Shown bool
			}
			b.Evaluate(focused, &f)
			if !f.Shown {
				t.Errorf("%s: the focus on %q does not show", view, f.Name)
			}
			if f.Name == "" && len(names) > 0 || len(names) > 200 {
				break // it goes around
			}
			names = append(names, f.Name)
		}
		for _, w := range want {
			if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, w) }) {
				t.Errorf("%s: the tab key does not reach %q, but %q", view, w, names)
			}
		}
	}
	b.Open(p.url("map"))
	b.Await(ready)
	for i, view := range []string{"map", "objects", "connection", "faults", "fabric"} {
		b.Key(fmt.Sprint(i+1), '1'+i)
		b.Await(`location.hash.startsWith("#` + view + `")`)
	}
	b.Key("?", 0)
	b.Await(`document.querySelector("dialog.keys").open`)
	b.Await(text("dialog.keys", "rows of a table"))
	check(t, b, "help")
	b.Screenshot("help")
	b.Key("Escape", 27)
	b.Await(`!document.querySelector("dialog.keys").open`)
	b.Key("2", '2')
	b.Await(ready)
	b.Key("/", 0)
	b.Await(`document.activeElement.id === "search"`)
	b.Call("Input.insertText", map[string]string{"text": "no such thing"}, nil)
	b.Await(text("main", "No queue pairs"))
	check(t, b, "nothing found")
	b.Key("Escape", 27)
	b.Await(`document.querySelectorAll(".row:not([hidden])").length > 3`)
	b.Evaluate(`document.querySelector(".row").focus()`, nil)
	b.Key("ArrowDown", 40)
	b.Key("Enter", 13)
	b.Await(`location.hash.startsWith("#connection/")`)
}

// TestProgramConsoleKeepsItsLayout watches what moves while the figures change.
func TestProgramConsoleKeepsItsLayout(t *testing.T) {
	b := chromium.NewTab(t)
	p := pretend(t, func(second int) any {
		s := programs(someNames, 6, 4, second*second*37) // of which some have more digits
		s.Fabrics = append(s.Fabrics, fabrics(t, "fat-tree:k=4", second*second))
		return s
	})
	for _, view := range views {
		b.Open(p.url(view))
		b.Await(ready)
		var moved []string
		b.Evaluate(`(async () => {
			const { show } = await import("/app.js"), { ask } = await import("/model.js");
			const moved = [], frame = () => new Promise(requestAnimationFrame);
			for (let i = 0; i < 3; i++) { await show(await ask("snapshot")); await frame(); await frame(); }
			await new Promise((done) => setTimeout(done, 300)); // what the view itself asks for
			const seen = new PerformanceObserver((all) => {
				for (const s of all.getEntries()) for (const x of s.sources) moved.push((x.node?.nodeName ?? "") + " " + (x.node?.className ?? "") + " in " +
					(x.node?.parentElement?.className ?? ""));
			});
			seen.observe({ type: "layout-shift" });
			for (let i = 0; i < 12; i++) { await show(await ask("snapshot")); await frame(); await frame(); }
			await new Promise((done) => setTimeout(done, 100));
			return moved;
		})()`, &moved)
		for _, m := range moved {
			t.Errorf("%s: %s has moved", view, m)
		}
	}
}
