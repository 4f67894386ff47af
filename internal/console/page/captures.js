// Captures: files of packets that the reader opens, and flight recorders, as ladders.

import { act, el, empty, say } from "./dom.js";
import { bytes, count, plural, qpn } from "./format.js";
import { ladder } from "./ladder.js";
import { ask, matches, model, path } from "./model.js";

const most = 256; // MiB of captures, as the server has it

let kept = null; // what was opened last stays while the page does

export function open(root, page, args) {
  const file = el("input", { type: "file", multiple: true, accept: ".pcapng,.pcap,.gz,.erf", hidden: true, "aria-label": "Captures" });
  const pick = el("button", { onclick: () => file.click(), "aria-keyshortcuts": "o" }, "Open captures…");
  const recorders = el("select", { "aria-label": "Flight recorder of a device" });
  const what = el("span", { class: "faint push" });
  const next = el("button", { onclick: () => steps.jump(1) }, "Next  n"), previous = el("button", { onclick: () => steps.jump(-1) }, "Previous  p");
  const near = el("button", { "aria-pressed": "false", title: "Only packets near a warning, a fault or a comment" }, "Near remarks");
  const connections = el("ul", { class: "choices", role: "list" });
  const notes = el("div", { class: "remarks" });
  const steps = ladder({ chosen: tell });
  const none = el("section", { class: "panel split" }, empty("No capture",
    "Open a file of RoCE or InfiniBand packets: pcapng or pcap of softrdma, Wireshark, tcpdump or ibdump. Two captures of both ends " +
    "show what was lost between them. Drop the files here, or choose the flight recorder of a device above. To make a capture:",
    "softrdma exec --pcap packets.pcapng -- PROGRAM", "tcpdump -i any -w packets.pcapng udp port 4791"));
  const shown = el("div", { class: "split aside", hidden: true },
    el("section", { class: "panel titled" }, el("div", { class: "bar" }, el("h2", {}, "Connections")), el("div", { class: "scroll flat" }, connections)),
    el("div", { class: "column" }, el("section", { class: "panel titled grow" }, steps.root), el("section", { class: "panel" }, notes)));
  root.append(el("div", { class: "bar" }, pick, file, el("span", {}, "or"), recorders, what, near, previous, next), none, shown);
  let chosen = 0, closed = false, searched = "";

  file.addEventListener("change", () => { if (file.files.length > 0) send([...file.files]); file.value = ""; });
  near.addEventListener("click", () => { near.setAttribute("aria-pressed", String(!only())); choose(chosen); });
  const only = () => near.getAttribute("aria-pressed") === "true";
  recorders.addEventListener("change", () => {
    const d = model.byDevice.get(recorders.value);
    if (d) load(() => ask(path(d, "ladder")));
  });
  const over = (d) => { d.preventDefault(); root.classList.toggle("dropping", d.type === "dragover"); };
  const drop = (d) => { over(d); if (d.dataTransfer.files.length > 0) send([...d.dataTransfer.files]); };
  root.addEventListener("dragover", over);
  root.addEventListener("dragleave", over);
  root.addEventListener("drop", drop);
  const keys = (k) => {
    if (k.ctrlKey || k.metaKey || k.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "")) return;
    if (k.key === "o") pick.click();
    if (k.key === "n") steps.jump(1);
    if (k.key === "p") steps.jump(-1);
  };
  addEventListener("keydown", keys);

  function send(files) {
    const size = files.reduce((s, f) => s + f.size, 0);
    if (files.length > 2) return page.fail(new Error(`Captures: expected one or two files, found ${files.length}.`));
    if (size > most * 2 ** 20) {
      return page.fail(new Error(`Captures: expected at most ${most} MiB together, found ${bytes(size)}. softrdma capture --ladder draws larger ones.`));
    }
    const form = new FormData();
    for (const f of files) form.append("capture", f, f.name);
    recorders.value = "";
    return load(() => ask("captures", { method: "POST", body: form }));
  }

  async function load(from) {
    say(what, "reads …");
    pick.disabled = true;
    try {
      kept = await from();
      chosen = Math.max(0, kept.ladder.connections.findIndex((c) => c.faults > 0));
      page.fail(null);
    } catch (err) {
      page.fail(err);
    }
    pick.disabled = false;
    if (!closed) show();
  }

  function show() {
    none.hidden = kept !== null;
    shown.hidden = kept === null;
    for (const b of [near, next, previous]) b.disabled = kept === null;
    if (!kept) { say(what, ""); return; }
    const total = (name) => kept.captures.reduce((s, c) => s + c[name], 0);
    const cut = kept.captures.map((c) => c.error).filter(Boolean).join(" · ");
    say(what, `${kept.captures.map((c) => c.name).join(" and ")}: ${plural(total("packets"), "packet")}, ${plural(total("faults"), "fault")}, ` +
      `${plural(total("warnings"), "warning")}${kept.ladder.dropped ? `, the first ${kept.ladder.dropped} not shown` : ""}${cut ? " · " + cut : ""}`);
    what.title = what.textContent;
    list();
    choose(chosen);
  }

  function list() {
    const search = page.search();
    const all = kept.ladder.connections;
    const found = all.map((c, i) => [c, i]).filter(([c]) => matches(search, c.left.address, c.right.address, qpn(c.right.qpn),
      c.left.qpn === undefined ? "" : qpn(c.left.qpn), c.transport) || c.rungs.some((r) => matches(search, r.label, ...r.notes)));
    connections.replaceChildren(...found.slice(0, 500).map(([c, i]) => {
      const ends = `${c.left.address} ${c.left.qpn === undefined ? "" : qpn(c.left.qpn)} → ${c.right.address} ${qpn(c.right.qpn)}`;
      const e = act(el("li", { "data-i": i, class: i === chosen ? "chosen" : "" }, el("span", { class: "mono" }, ends),
        el("span", { class: c.faults ? "bad" : "faint" }, `${c.transport}, ${plural(c.packets, "packet")}${c.faults ? `, ${plural(c.faults, "fault")}` : ""}`)),
      ends, () => choose(i));
      return e;
    }));
    if (found.length === 0) connections.append(el("li", { class: "faint" }, all.length === 0 ? nothing() : "No connection matches the search."));
  }

  function nothing() {
    const other = kept.captures.flatMap((c) => Object.entries(c.skipped)).map(([kind, n]) => `${count(n)} ${kind}`).join(", ");
    return "No packet of RoCE or InfiniBand" + (other ? ": " + other : ".");
  }

  function choose(i) {
    const c = kept.ladder.connections[i];
    chosen = i;
    for (const e of connections.children) e.classList.toggle("chosen", Number(e.dataset.i) === i);
    notes.replaceChildren(el("p", { class: "faint" }, "↑ ↓ choose a packet, n and p go to the next remark or search result, Enter explains."));
    if (!c) { steps.set(null, ""); return; }
    const remarks = c.rungs.some((r) => r.remark);
    steps.set(only() && remarks ? { ...c, rungs: c.rungs.filter((r, k) => c.rungs.slice(Math.max(0, k - 2), k + 3).some((x) => x.remark || x.at_fault)) } : c);
    steps.search(page.search());
    steps.fault();
  }

  // tell says what is known of the chosen packet.
  function tell(r) {
    notes.replaceChildren(el("p", { class: "mono" }, r.label),
      ...(r.notes.length > 0 ? r.notes : ["Nothing is wrong with this packet."]).slice(0, 4).map((n) => el("p", { class: r.at_fault ? "bad" : "faint" }, n)),
      el("button", { class: "small", onclick: steps.explain }, "Explain"));
  }

  function update() {
    const keys = model.devices.map((d) => d.key);
    if ([...recorders.options].slice(1).map((o) => o.value).join("\n") !== keys.join("\n") || recorders.options.length === 0) {
      const before = recorders.value;
      recorders.replaceChildren(el("option", { value: "" }, keys.length > 0 ? "flight recorder of …" : "no device has a flight recorder"),
        ...model.devices.map((d) => el("option", { value: d.key }, `${d.name} of ${d.program} ${d.pid}`)));
      recorders.disabled = keys.length === 0;
      recorders.value = keys.includes(before) ? before : "";
      const d = model.byDevice.get(args.join("/"));
      if (d && before === "") { args = []; recorders.value = d.key; load(() => ask(path(d, "ladder"))); }
    }
    if (kept && searched !== page.search()) {
      searched = page.search();
      list();
      steps.search(searched);
    }
  }
  show();

  function close() {
    closed = true;
    steps.close();
    removeEventListener("keydown", keys);
    root.classList.remove("dropping");
    root.removeEventListener("dragover", over);
    root.removeEventListener("dragleave", over);
    root.removeEventListener("drop", drop);
  }
  return { update, close };
}
