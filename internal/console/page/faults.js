// Faults: scenarios that are switched on and off for a device, and what they have hit.

import { copy, el, empty, list, say, start, titled } from "./dom.js";
import { count, plural } from "./format.js";
import { ask, model, path } from "./model.js";

const every = 1000; // ms between looks at the hits

let scenarios = null;

export function open(root, page, args) {
  let frame = null;
  return {
    update() {
      if (model.devices.length === 0) {
        frame?.close();
        frame = null;
        root.replaceChildren(el("section", { class: "panel split" }, empty("No program has a device",
          "Faults are set on the devices of programs that run. Start one in two terminals, for example:", ...start)));
        return;
      }
      frame ??= show(root, page, args[0] ?? "");
      frame.update();
    },
    close() { frame?.close(); },
  };
}

function show(root, page, wanted) {
  const choice = el("select", { "aria-label": "Device" });
  const clear = el("button", { disabled: true }, "Remove all rules");
  const note = el("span", { class: "faint" });
  const scene = el("div", { class: "scenarios" }), rules = el("ul", { class: "lines" }), hits = el("ul", { class: "lines" });
  const rows = new Map();
  root.replaceChildren(el("div", { class: "bar" }, el("span", {}, "Device"), choice, note, el("span", { class: "push" }), clear),
    el("div", { class: "split" },
      titled("flush", "Scenarios", scene),
      el("div", { class: "column" }, titled("half", "Rules of the device", rules), titled("half", "What they have hit", hits))));
  let asked = -every, busy = false, closed = false, latest = null;

  const device = () => model.byDevice.get(choice.value);
  choice.addEventListener("change", () => { latest = null; asked = -every; update(); });
  clear.addEventListener("click", () => change("faults", "DELETE"));

  async function change(what, method) {
    const d = device();
    if (!d || busy) return;
    busy = true;
    try {
      shown(d, await ask(path(d, what), { method }));
      page.fail(null);
    } catch (err) {
      page.fail(err);
    }
    busy = false;
  }

  async function look() {
    const d = device();
    if (!d || busy || performance.now() - asked < every) return;
    asked = performance.now();
    try {
      scenarios ??= await ask("scenarios");
      const f = await ask(path(d, "faults"));
      if (!closed && !busy) shown(d, f);
    } catch (err) {
      page.fail(err);
    }
  }

  function shown(d, f) {
    if (d !== device() && d.key !== choice.value) return;
    latest = f;
    if (rows.size === 0) for (const s of scenarios) scene.append(row(s));
    for (const [name, x] of rows) {
      const on = f.on.includes(name);
      x.toggle.setAttribute("aria-checked", String(on));
    }
    clear.disabled = f.rules.length === 0;
    lines(rules, f.rules.map((r) => `${r.name || "rule"}: ${r.action}, ${plural(r.hits, "hit")}`), "none: switch a scenario on");
    lines(hits, [...f.hits].reverse(), "nothing yet");
    say(note, f.rules.length > 0 ? `${plural(f.rules.length, "rule")}, ${count(f.rules.reduce((s, r) => s + r.hits, 0))} hits` : "");
  }

  function row(s) {
    const name = el("h2", {}, s.name);
    const toggle = el("button", { class: "switch", role: "switch", "aria-checked": "false", "aria-label": s.name,
      onclick: () => change("faults/" + encodeURIComponent(s.name), latest.on.includes(s.name) ? "DELETE" : "PUT") });
    const button = el("button", { class: "small", "aria-label": "Copy " + s.name + " as YAML" }, "Copy YAML");
    button.addEventListener("click", () => copy(button, s.yaml));
    rows.set(s.name, { toggle });
    return el("div", { class: "scenario" }, toggle, el("div", {}, name, el("p", {}, s.summary)), button);
  }

  function update() {
    const keys = model.devices.map((d) => d.key);
    if ([...choice.options].map((o) => o.value).join("\n") !== keys.join("\n")) {
      const before = choice.value || wanted;
      choice.replaceChildren(...model.devices.map((d) => el("option", { value: d.key }, `${d.name} of ${d.program} ${d.pid}`)));
      if (keys.includes(before)) choice.value = before;
    }
    look();
  }
  return { update, close() { closed = true; } };
}

const lines = (e, texts, otherwise) => list(e, texts.length > 0 ? texts : [otherwise]);
