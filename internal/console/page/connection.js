// One queue pair: what it is, its figures over time, what happened to it, and its last packets.

import { chart } from "./chart.js";
import { act, el, empty, say, start } from "./dom.js";
import { bytes, bytesRate, count, qpn, time } from "./format.js";
import { explain } from "./explain.js";
import { ladder } from "./ladder.js";
import { ask, deviceKey, history, model, path } from "./model.js";

const every = 2000; // ms between looks at the flight recorder

export function open(root, page, args) {
  let chosen = args.length === 3 ? deviceKey(args[0], args[1]) + "/" + args[2] : "";
  let frame = null;
  return {
    update() {
      if (chosen === "") {
        const busy = (q) => (q.rates?.sent_bytes ?? -1) + (q.rates?.received_bytes ?? -1);
        const q = [...model.qps].sort((a, b) => busy(b) - busy(a))[0];
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
  const happened = el("ul", { class: "lines" });
  const pause = el("button", { class: "small", "aria-pressed": "false" }, "Pause");
  const hold = (on) => pause.setAttribute("aria-pressed", String(on));
  const paused = () => pause.getAttribute("aria-pressed") === "true";
  pause.addEventListener("click", () => hold(!paused()));
  const packets = ladder({ chosen: () => hold(true) }); // a chosen packet stays
  const seen = el("span", { class: "faint push" });
  root.append(el("div", { class: "bar" }, title, other, el("span", { class: "push" }), saved),
    el("div", { class: "split uneven" },
      el("div", { class: "column" },
        el("dl", { class: "panel facts" }, names.map((n, i) => el("div", {}, el("dt", {}, n), values[i]))),
        charts.map((c) => c.root)),
      el("div", { class: "column" },
        el("section", { class: "panel titled events" },
          el("div", { class: "bar" }, el("h2", {}, "States, refusals, failures"), el("span", { class: "faint push" }, "a click explains")),
          el("div", { class: "scroll" }, happened)),
        el("section", { class: "panel titled packets" },
          el("div", { class: "bar" }, el("h2", {}, "Last packets"), seen, pause), packets.root))));
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
      h = { lines: [], error: err.message };
    }
    if (closed || paused()) return;
    events([["this end", h.lines], ["other end", h.other?.lines ?? []]]);
    const c = h.ladder?.connections[0];
    packets.set(c ?? null, h.error ?? "The flight recorder has no packet of it. Those of iWARP are not recorded.");
    say(seen, h.other && !h.other.error ? "as both ends saw them" : h.other ? h.other.error : "as this end saw them: the other one is not on this host");
    seen.title = seen.textContent;
  }

  // events lists what happened to both ends, the latest first. Each end has times of its own.
  function events(ends) {
    const rows = ends.flatMap(([end, lines]) => [...lines].reverse().map((text) => ({ end, text })));
    const shown = rows.map((r) => r.end + r.text).join("\n") || "none";
    if (happened.dataset.shown === shown) return;
    happened.dataset.shown = shown;
    happened.replaceChildren(...rows.map(({ end, text }) => act(el("li", { class: / completed | ERR/.test(text) ? "bad" : "" },
      el("span", { class: "faint" }, end + " "), text), "Explain " + text, () => explain(text.replace(/^\S+ /, "")))));
    if (rows.length === 0) happened.append(el("li", {}, "none that the flight recorders still have"));
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
    close() { closed = true; packets.close(); },
  };
}
