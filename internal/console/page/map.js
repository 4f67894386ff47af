// The map: programs and their devices, the connections between them, other hosts and fabrics.

import { act, el, empty, say, start, svg } from "./dom.js";
import { bytesRate, plural, short, time } from "./format.js";
import { graph, height, place, width } from "./graph.js";
import { model } from "./model.js";

export function open(root, page) {
  const panel = el("section", { class: "panel map", "aria-label": "Map" });
  root.append(panel);
  let shape = "", drawn = null;
  const redraw = () => { shape = ""; if (model.at) update(); };
  addEventListener("resize", redraw);

  function update() {
    const g = graph(page.search());
    const now = [panel.clientWidth, panel.clientHeight, ...g.nodes.map((n) => n.id), ...g.edges.map((e) => e.id)].join("\n");
    if (now !== shape) {
      shape = now;
      drawn = g.nodes.length === 0 ? nothing(panel, page) : draw(panel, page, g);
    }
    drawn(g);
  }
  return { update, close: () => removeEventListener("resize", redraw) };
}

function nothing(panel, page) {
  panel.replaceChildren(page.search() !== "" ? empty("Nothing matches the search", "Press Esc to see everything.") :
    empty("No program has a device", "The map shows programs that use RDMA devices of softrdma on this host. Start one in two terminals, for example:",
      ...start));
  return () => {};
}

// draw draws the nodes and edges and returns a function that shows the figures of a later graph.
function draw(panel, page, g) {
  const size = place(g, panel.clientWidth, panel.clientHeight), margin = 40;
  const w = Math.max(size.w + 2 * margin, panel.clientWidth / 1.15), h = Math.max(size.h + 2 * margin, panel.clientHeight / 1.15);
  const dx = (w - size.w) / 2, dy = (h - size.h) / 2;
  for (const n of g.nodes) { n.x += dx; n.y += dy; }
  const nodes = new Map(), edges = new Map();
  const picture = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "group", "aria-label": "Programs, devices and connections" });
  for (const e of g.edges) picture.append(edge(e, edges, page));
  for (const n of g.nodes) picture.append(node(n, nodes, page));
  panel.replaceChildren(picture);
  return (now) => {
    for (const n of now.nodes) nodes.get(n.id)(n);
    for (const e of now.edges) edges.get(e.id)(e);
  };
}

function node(n, all, page) {
  const line = (y, c) => svg("text", { x: 14, y, class: c });
  const title = line(24, "strong"), second = line(44, "faint"), third = line(60, "faint"), traffic = line(77, "number");
  const hint = svg("title");
  let latest = n;
  const g = act(svg("g", { class: "node " + n.kind, transform: `translate(${n.x} ${n.y})` }, svg("rect", { width, height, rx: 7 }), hint,
    title, second, third, traffic), n.name, () => enter(latest, page));
  all.set(n.id, (now) => {
    latest = now;
    const [a, b, c, d, broken] = texts(now);
    [title, second, third, traffic].forEach((t, i) => say(t, short([a, b, c, d][i], i === 0 ? 27 : 33)));
    say(hint, [a, b, c, d].join("\n"));
    g.setAttribute("aria-label", [a, b, c, d].filter(Boolean).join(", "));
    g.classList.toggle("broken", broken);
  });
  return g;
}

// texts returns the four lines of a node, and whether something is wrong with it.
function texts(n) {
  const sum = (f) => n.devices.reduce((s, d) => s + f(d), 0);
  const qps = sum((d) => d.queue_pairs.length);
  const traffic = `↑ ${bytesRate(sum((d) => d.rates?.sent_bytes ?? 0))}   ↓ ${bytesRate(sum((d) => d.rates?.received_bytes ?? 0))}`;
  const failed = n.devices.some((d) => d.queue_pairs.some((q) => q.state === "ERR"));
  const inside = n.inside > 0 ? `, ${plural(n.inside, "QP")} inside` : "";
  switch (n.kind) {
    case "device": {
      const d = n.devices[0];
      return [`${d.program}  ${d.pid}`, `${d.name}`, `${d.protocol} · ${plural(qps, "QP")}${inside}`, traffic, failed || d.state !== "active"];
    }
    case "group":
      return [`${n.name}  × ${n.devices.length}`, `${plural(n.devices.length, "device")}`, plural(qps, "QP") + inside, traffic, failed];
    case "fabric": {
      const f = n.fabric, active = (f.links ?? []).filter((l) => l.state === "active").length;
      if (f.error) return ["fabric " + n.name, f.error, "", "", true];
      return ["fabric " + n.name, `${f.status.switches} switches, ${f.status.adapters} adapters`, `${active} of ${f.links.length} cables active`,
        f.status.manager.node ? "manager on " + f.status.manager.node : "no subnet manager", active < f.links.length];
    }
  }
  const several = n.addresses.size > 1;
  return [several ? n.name : "another host", several ? "on other hosts" : n.name, "no program of this user here", "", false];
}

function enter(n, page) {
  if (n.kind === "device") page.go("objects", "qps", n.devices[0].key);
  else if (n.kind === "fabric") page.go("fabric", n.fabric.pid, n.fabric.name);
  else if (n.kind === "group") page.go("objects", "qps");
}

function edge(e, all, page) {
  const [left, right] = e.a.x <= e.b.x ? [e.a, e.b] : [e.b, e.a];
  const y1 = left.y + height / 2, y2 = right.y + height / 2, same = left.x === right.x;
  const x1 = left.x + width, x2 = same ? right.x + width : right.x;
  const bend = same ? 90 : Math.max(Math.abs(x2 - x1) / 2, 50);
  const path = `M${x1} ${y1}C${x1 + bend} ${y1} ${same ? x2 + bend : x2 - bend} ${y2} ${x2} ${y2}`;
  const x = same ? x1 + bend * 0.75 : (x1 + x2) / 2, y = (y1 + y2) / 2;
  const text = (dy, c) => svg("text", { x, y: y + dy, class: c, "text-anchor": "middle" });
  const there = text(-4, "number"), more = text(11, "faint number");
  const wire = svg("path", { d: path, class: "wire" }), labels = [];
  if (e.from.length + e.to.length > 0) labels.push(svg("rect", { x: x - 96, y: y - 18, width: 192, height: 36, rx: 4 }), there, more);
  let latest = e;
  const g = act(svg("g", { class: "edge" }, svg("path", { d: path, class: "reach" }), wire, labels), "connection", () => follow(latest, page));
  all.set(e.id, (now) => {
    latest = now;
    const [out, back] = left.id === e.a.id ? [now.from, now.to] : [now.to, now.from];
    const total = (list) => list.reduce((s, q) => s + (q.rates?.sent_bytes ?? 0), 0);
    const a = total(out), b = total(back), n = Math.max(out.length, back.length);
    say(there, [a > 0 || b === 0 ? `→ ${bytesRate(a)}` : "", b > 0 ? `← ${bytesRate(b)}` : ""].filter(Boolean).join("   "));
    const trips = [...out, ...back].map((q) => q.measured?.round_trip_ns ?? 0).filter((t) => t > 0);
    say(more, plural(n, "QP") + (trips.length > 0 ? " · round trip " + time(trips.reduce((a, b) => Math.max(a, b))) : ""));
    g.setAttribute("aria-label", `${left.name} to ${right.name}` + (n === 0 ? "" : `: ${there.textContent}, ${more.textContent}`));
    g.classList.toggle("busy", a + b > 0);
    g.classList.toggle("broken", [...out, ...back].some((q) => q.state === "ERR"));
    wire.setAttribute("stroke-width", a + b > 0 ? Math.min(1.5 + Math.log10(1 + (a + b) / 1e4), 6).toFixed(1) : 1.5);
  });
  return g;
}

function follow(e, page) {
  const q = e.from[0] ?? e.to[0];
  if (!q) return;
  if (Math.max(e.from.length, e.to.length) === 1) page.go("connection", q.device.pid, q.device.name, q.qpn);
  else page.go("objects", "qps", (e.from[0] ?? e.to[0]).device.key);
}
