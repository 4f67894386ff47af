// One queue pair: what it is, its figures over time, what happened to it, and its last packets.

import { chart } from "./chart.js";
import { el, empty, list, say, start, titled } from "./dom.js";
import { bytes, bytesRate, count, qpn, time } from "./format.js";
import { ask, deviceKey, history, model, path } from "./model.js";

const every = 2000; // ms between looks at the flight recorder

export function open(root, page, args) {
  let chosen = args.length === 3 ? deviceKey(args[0], args[1]) + "/" + args[2] : "";
  let frame = null;
  return {
    update() {
      if (chosen === "") {
        const q = [...model.qps].sort((a, b) => (b.rates?.sent_bytes ?? -1) - (a.rates?.sent_bytes ?? -1))[0];
        if (q) page.redirect("connection", q.device.pid, q.device.name, q.qpn);
        else root.replaceChildren(el("section", { class: "panel split" }, empty("No queue pair",
          "This view shows one connection. No program has any yet. Start one in two terminals, for example:", ...start)));
        return;
      }
      frame ??= show(root, page, chosen, args);
      frame.update();
    },
    close() { frame?.close(); },
  };
}

function show(root, page, key, args) {
  const title = el("h2"), other = el("button", { hidden: true }), saved = el("button", {}, "Save packets as pcapng");
  const names = ["Type", "State", "Path MTU", "Retransmissions", "Sends posted", "Receives posted", "In flight", "Peer"];
  const values = names.map(() => el("dd"));
  const charts = [
    chart("Throughput", bytesRate, [{ name: "sent", value: (s) => s.sent }, { name: "received", value: (s) => s.received }]),
    chart("Round trip", time, [{ name: "round trip", value: (s) => s.trip }]),
    chart("Window", bytes, [{ name: "window", value: (s) => s.window }, { name: "in flight", value: (s) => s.flight }]),
  ];
  const happened = el("ul", { class: "lines" }), ladder = el("pre");
  const pause = el("button", { class: "small", "aria-pressed": "false" }, "Pause");
  pause.addEventListener("click", () => pause.setAttribute("aria-pressed", String(!paused())));
  const paused = () => pause.getAttribute("aria-pressed") === "true";
  root.append(el("div", { class: "bar" }, title, other, el("span", { class: "push" }), saved),
    el("div", { class: "split uneven" },
      el("div", { class: "column" },
        el("dl", { class: "panel facts" }, names.map((n, i) => el("div", {}, el("dt", {}, n), values[i]))),
        charts.map((c) => c.root)),
      el("div", { class: "column" },
        titled("events", "States, refusals, failures", happened),
        titled("packets", "Last packets", ladder, el("span", { class: "faint push" }, "as this end saw them"), pause))));
  let q = null, asked = -every, closed = false;
  other.addEventListener("click", () => page.go("connection", q.other.device.pid, q.other.device.name, q.other.qpn));
  saved.addEventListener("click", save);

  async function save() {
    try {
      const url = URL.createObjectURL(await ask(path(q.device, "record"), { raw: true }));
      const a = el("a", { href: url, download: "softrdma-" + qpn(q.qpn) + ".pcapng" });
      a.click();
      setTimeout(() => URL.revokeObjectURL(url), 1e4);
    } catch (err) { page.fail(err); }
  }

  async function look() {
    if (paused() || performance.now() - asked < every) return;
    asked = performance.now();
    let h;
    try {
      h = await ask(path(q.device, `qps/${q.qpn}`));
    } catch (err) {
      h = { lines: [], ladder: err.message };
    }
    if (closed) return;
    const events = h.lines.filter((l) => !/^\S+ (sent|received) /.test(l)).reverse();
    if (events.length === 0) events.push("none that the flight recorder still has");
    list(happened, events);
    say(ladder, h.ladder);
  }

  return {
    update() {
      q = model.byQP.get(key) ?? null;
      saved.disabled = q === null;
      if (!q) {
        say(title, `Queue pair ${qpn(Number(args[2]))} of ${args[1]} has gone`);
        other.hidden = true;
        return;
      }
      say(title, `Queue pair ${qpn(q.qpn)} of ${q.device.program} ${q.device.pid}, ${q.device.name}`);
      other.hidden = q.other === null;
      say(other, q.other ? `Other end: ${qpn(q.other.qpn)} of ${q.other.device.program} ${q.other.device.pid}` : "");
      const m = q.measured;
      [q.type, q.state, q.path_mtu ?? "–", m ? `${count(m.retransmissions ?? 0)}${m.rnr_wait ? ", waits (RNR)" : ""}` : "–",
        q.sends, q.receives, m ? count(m.in_flight ?? 0) : "–", q.peer ?? "none"]
        .forEach((v, i) => { say(values[i], v); values[i].title = v; });
      values[1].className = q.state === "ERR" ? "bad" : q.state === "RTS" ? "good" : "";
      for (const c of charts) c.set(history(key));
      look();
    },
    close() { closed = true; },
  };
}
