// The map: programs and their devices, the connections between them, other hosts, switches and cables of fabrics.

import { act, el, empty, say, start, svg } from "./dom.js";
import { bytesRate, plural, short, time } from "./format.js";
import { sent, total } from "./fold.js";
import { graph, height, place, width } from "./graph.js";
import { carried, model } from "./model.js";

const smallest = 0.65; // scale at which texts are still read
const beside = 212; // room to the right of a column for edges within it

export function open(root, page) {
  const panel = el("section", { class: "panel map", "aria-label": "Map", tabindex: "-1" });
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
  for (const e of g.edges) if (e.a.x === e.b.x) size.w = Math.max(size.w, e.a.x + width + beside);
  const w = Math.max(size.w + 2 * margin, panel.clientWidth / 1.15), h = Math.max(size.h + 2 * margin, panel.clientHeight / 1.15);
  const dx = (w - size.w) / 2, dy = (h - size.h) / 2;
  for (const n of g.nodes) { n.x += dx; n.y += dy; }
  const scale = Math.max(Math.min(panel.clientWidth / w, panel.clientHeight / h), smallest); // below it the panel scrolls
  const nodes = new Map(), edges = new Map();
  const picture = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "group", "aria-label": "Programs, devices and connections" });
  picture.style.minWidth = w * scale > panel.clientWidth + 1 ? w * scale + "px" : "";
  picture.style.minHeight = h * scale > panel.clientHeight + 1 ? h * scale + "px" : "";
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
    case "fabric":
      return ["fabric " + n.name, n.fabric.error, "", "", true];
    case "switches": {
      const { kind, members } = n.group, names = new Set(members), ends = { cables: 0, active: 0, sent: 0, got: 0 };
      for (const l of n.fabric.links) {
        l.ends.forEach((e, i) => {
          if (!names.has(e.node)) return;
          ends.cables++;
          if (l.state === "active") ends.active++;
          ends.sent += sent(l, i);
          ends.got += sent(l, 1 - i);
        });
      }
      const what = members.length === 1 ? kind : plural(members.length, kind).replace("switchs", "switches");
      return [members.length === 1 ? n.name : `${n.name}  × ${members.length}`, `${what} of fabric ${n.fabric.name}`, `${ends.active} of ${ends.cables} ports active`,
        `↑ ${bytesRate(ends.sent)}   ↓ ${bytesRate(ends.got)}`, ends.active < ends.cables];
    }
  }
  const several = n.addresses.size > 1;
  return [several ? n.name : "another host", several ? "on other hosts" : n.name, "no program of this user here", "", false];
}

function enter(n, page) {
  if (n.kind === "device") page.go("objects", "qps", n.devices[0].key);
  else if (n.fabric) page.go("fabric", n.fabric.pid, n.fabric.name);
  else if (n.kind === "group") page.go("objects", "qps");
}

function edge(e, all, page) {
  const [left, right] = e.a.x <= e.b.x ? [e.a, e.b] : [e.b, e.a];
  const y1 = left.y + height / 2, y2 = right.y + height / 2, same = left.x === right.x;
  const x1 = left.x + width, x2 = same ? right.x + width : right.x;
  const bend = same ? 90 : Math.max(Math.abs(x2 - x1) / 2, 50);
  const path = `M${x1} ${y1}C${x1 + bend} ${y1} ${same ? x2 + bend : x2 - bend} ${y2} ${x2} ${y2}`;
  const x = same ? x1 + 114 : (x1 + x2) / 2, y = (y1 + y2) / 2;
  const text = (dy, c) => svg("text", { x, y: y + dy, class: c, "text-anchor": "middle" });
  const there = text(-4, "number"), more = text(11, "faint number");
  const wire = svg("path", { d: path, class: "wire" }), labels = [];
  if (e.from.length + e.to.length > 0 || e.cables) labels.push(svg("rect", { x: x - 96, y: y - 18, width: 192, height: 36, rx: 4 }), there, more);
  let latest = e;
  const g = act(svg("g", { class: "edge" }, svg("path", { d: path, class: "reach" }), wire, labels), "connection", () => follow(latest, page));
  all.set(e.id, (now) => {
    latest = now;
    const [out, back] = left.id === e.a.id ? [now.from, now.to] : [now.to, now.from];
    // What a peer on another host sends is only known from what it brings here.
    const sum = (list, others) => list.reduce((s, q) => s + carried(q), 0) + others.reduce((s, q) => s + (q.other ? 0 : q.rates?.received_bytes ?? 0), 0);
    const c = now.cables ? total(now.cables, now.all, (n) => now.first.has(n)) : null;
    const [a, b] = !c ? [sum(out, back), sum(back, out)] : left.id === e.a.id ? [c.there, c.back] : [c.back, c.there];
    say(there, [a > 0 || b === 0 ? `→ ${bytesRate(a)}` : "", b > 0 ? `← ${bytesRate(b)}` : ""].filter(Boolean).join("   "));
    const trips = [...out, ...back].map((q) => q.measured?.round_trip_ns ?? 0).filter((t) => t > 0);
    say(more, c ? (c.active < c.cables ? `${c.active} of ${plural(c.cables, "cable")} active` : plural(c.cables, "cable"))
      : plural(Math.max(out.length, back.length), "QP") + (trips.length > 0 ? " · round trip " + time(trips.reduce((a, b) => Math.max(a, b))) : ""));
    g.setAttribute("aria-label", `${left.name} to ${right.name}: ${there.textContent}, ${more.textContent}`);
    g.classList.toggle("busy", a + b > 0);
    g.classList.toggle("broken", c ? c.active < c.cables : [...out, ...back].some((q) => q.state === "ERR"));
    wire.setAttribute("stroke-width", a + b > 0 ? Math.min(1.5 + Math.log10(1 + (a + b) / 1e4), 6).toFixed(1) : 1.5);
  });
  return g;
}

function follow(e, page) {
  const q = e.from[0] ?? e.to[0], f = e.a.fabric ?? e.b.fabric;
  if (!q) { if (f) page.go("fabric", f.pid, f.name); return; }
  if (Math.max(e.from.length, e.to.length) === 1) page.go("connection", q.device.pid, q.device.name, q.qpn);
  else page.go("objects", "qps", (e.from[0] ?? e.to[0]).device.key);
}
