// The drawing of a fabric: switches, adapters and cables, or groups of them.

import { act, say, svg } from "./dom.js";
import { bytesRate, plural } from "./format.js";
import { byCable, total } from "./fold.js";

// draw draws a folded fabric in a panel, and returns a function that shows the figures of a later one.
// choose is called with the cables of an edge, open with a node.
export function draw(panel, folded, { choose, open }) {
  const w = panel.clientWidth || 900, h = panel.clientHeight || 500;
  const turned = isRound(folded), at = turned ? round(folded, w, h) : rows(folded, w, h);
  const picture = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "group", "aria-label": "Topology" });
  const thick = Math.min(3.5, 120 / folded.edges.length); // of cables with the highest load
  const edges = folded.edges.map((e) => edge(e, at, choose, thick, !turned));
  const nodes = folded.nodes.map((n) => node(n, at.get(n), open));
  picture.append(...edges.map((e) => e.g), ...nodes.map((n) => n.g));
  panel.replaceChildren(picture);
  return (f, marks) => {
    const all = byCable(f);
    for (const e of edges) e.show(all, marks);
    for (const n of nodes) n.show(all);
  };
}

// isRound reports whether no switch is above another: in a ring, a torus or a dragonfly.
function isRound({ nodes, edges }) {
  const switches = nodes.filter((n) => n.kind === "switch");
  return switches.length > 2 && switches.every((n) => n.rank === switches[0].rank) &&
    edges.some((e) => e.a.kind === "switch" && e.b.kind === "switch");
}

// rows places adapters at the bottom, and switches above by their distance from adapters.
function rows({ nodes, edges }, w, h) {
  const at = new Map(), near = new Map(nodes.map((n) => [n, []])), lines = [];
  for (const e of edges) { near.get(e.a).push(e.b); near.get(e.b).push(e.a); }
  for (const n of nodes) (lines[n.rank] ??= []).push(n);
  const shown = lines.filter(Boolean).reverse();
  shown.forEach((line, i) => {
    if (i > 0) line = sorted(line, near, at);
    line.forEach((n, k) => at.set(n, { x: (k + 0.5) * w / line.length, y: (i + 0.5) * h / shown.length, room: w / line.length }));
  });
  return at;
}

// sorted puts the nodes of a row below what they are connected with.
function sorted(row, near, at) {
  const middle = (n) => {
    const xs = near.get(n).map((m) => at.get(m)?.x).filter((x) => x !== undefined);
    return xs.length > 0 ? xs.reduce((s, x) => s + x, 0) / xs.length : 0;
  };
  return row.map((n, i) => [middle(n), i, n]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, , n]) => n);
}

// round places switches on an ellipse, and adapters outside next to their switches.
function round({ nodes, edges }, w, h) {
  const at = new Map(), switches = nodes.filter((n) => n.kind === "switch"), turn = new Map();
  const put = (n, angle, part, room) => at.set(n, { x: w / 2 + Math.sin(angle) * (w / 2 - 50) * part, y: h / 2 - Math.cos(angle) * (h / 2 - 24) * part, room });
  const room = 2 * Math.PI * Math.min(w, h) / 2 * 0.75 / switches.length;
  switches.forEach((n, i) => { turn.set(n, 2 * Math.PI * i / switches.length); put(n, turn.get(n), 0.68, Math.max(room, 50)); });
  const hung = new Map();
  for (const e of edges) {
    const [s, a] = e.a.kind === "switch" ? [e.a, e.b] : [e.b, e.a];
    if (a.kind !== "switch" && turn.has(s) && !at.has(a)) {
      at.set(a, null);
      (hung.get(s) ?? hung.set(s, []).get(s)).push(a);
    }
  }
  const step = 2 * Math.PI / switches.length;
  for (const [s, list] of hung) list.forEach((a, i) => put(a, turn.get(s) + step * ((i + 0.5) / list.length - 0.5), 1, Math.max(room / list.length, 46)));
  for (const n of nodes) if (!at.get(n)) put(n, 0, 0, 60);
  return at;
}

function edge(e, at, choose, thick, inRows) {
  const a = at.get(e.a), b = at.get(e.b), level = inRows && a.y === b.y;
  const bend = level ? -40 - Math.abs(a.x - b.x) / 8 : 0;
  const d = level ? `M${a.x} ${a.y}Q${(a.x + b.x) / 2} ${a.y + bend} ${b.x} ${b.y}` : `M${a.x} ${a.y}L${b.x} ${b.y}`;
  const wire = svg("path", { d, class: "wire" }), hint = svg("title"), arrow = svg("path", { d: "M-7 -7L8 0L-7 7Z", class: "arrow" });
  const turn = Math.atan2(b.y - a.y, b.x - a.x) * 180 / Math.PI;
  const g = act(svg("g", { class: "edge" }, hint, svg("path", { d, class: "reach" }), wire, arrow), e.id, () => choose(e.cables));
  const members = new Set(e.a.members);
  let said = "";
  function show(all, marks) {
    const t = total(e.cables, all, (n) => members.has(n));
    const what = e.cables.length === 1 ? `${all.get(e.cables[0])?.ends.map((x) => x.name).join(" – ")}, ${all.get(e.cables[0])?.state}`
      : `${e.a.name} – ${e.b.name}, ${t.active} of ${t.cables} cables active`;
    const text = `${what}, → ${bytesRate(t.there)}, ← ${bytesRate(t.back)}, load ${(100 * t.load).toFixed(0)} %`;
    if (text !== said) {
      said = text;
      say(hint, text);
      g.setAttribute("aria-label", text);
    }
    const mark = marks.of(e);
    // There is an arrow where packets go only one way: on a route and in a circle.
    arrow.setAttribute("transform", `translate(${(a.x + b.x) / 2} ${(a.y + b.y) / 2 + bend / 2}) rotate(${mark.back ? turn + 180 : turn})`);
    const classes = ["edge", t.active < t.cables ? "broken" : "", t.load > 0.001 ? "busy" : "", mark.name].filter(Boolean).join(" ");
    if (g.getAttribute("class") !== classes) g.setAttribute("class", classes);
    wire.setAttribute("stroke-width", (1.2 + thick * t.load).toFixed(1));
  }
  return { g, show };
}

function node(n, { x, y, room }, open) {
  const sw = n.kind === "switch", several = n.members.length > 1;
  const w = Math.min(Math.max(room - 6, 8), sw ? 96 : 76), h = several ? 36 : sw ? 28 : 24, hint = svg("title");
  const size = w < 60 ? 10 : 11, letters = Math.floor(w / (size * 0.6));
  const text = (dy, t, c = "") => (w < 24 ? null
    : svg("text", { x: w / 2, y: dy, class: c + (size === 10 ? " tiny" : " small"), "text-anchor": "middle" }, tail(String(t), letters)));
  const lines = sw ? [n.name, `× ${n.members.length}`] : [n.members.length, "ports"];
  const g = act(svg("g", { transform: `translate(${x - w / 2} ${y - h / 2})` }, hint, svg("rect", { width: w, height: h, rx: sw ? 4 : h / 2 }),
    several ? [text(15, lines[0], "bold"), text(29, lines[1], "faint")] : text(h / 2 + 4, n.name)), n.name, () => open(n));
  function show(all) {
    const t = total(n.inside, all, () => true);
    const label = several ? `${n.name}, ${plural(n.members.length, n.kind).replace("switchs", "switches")}` +
      (t.cables > 0 ? `, ${t.active} of ${t.cables} cables inside active` : "") : `${n.kind} ${n.name}`;
    say(hint, label);
    g.setAttribute("aria-label", label);
    g.setAttribute("class", `node ${sw ? "fabric" : "adapter"}${several ? " group" : ""}${t.active < t.cables ? " broken" : ""}`);
  }
  return { g, show };
}

// tail shortens a name to its end, by which names of a fabric differ.
const tail = (text, n) => (text.length <= n ? text : "…" + text.slice(text.length - n + 1));
