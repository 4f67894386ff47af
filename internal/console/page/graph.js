// The nodes and edges of the map, and where they lie.

import { findsDevice, matches, model } from "./model.js";
import { qpn } from "./format.js";

export const width = 216, height = 88;
const between = 250, below = 26; // columns and rows
const single = 24; // devices that are drawn one by one
const hosts = 12; // remote hosts, too

// graph returns what the map shows for a search. Nodes have id, kind and devices; edges have nodes a and b
// and queue pairs from (of a) and to (of b).
export function graph(text) {
  let devices = model.devices.filter((d) => findsDevice(text, d) || d.queue_pairs.some((q) => finds(text, q)));
  if (text.trim() !== "") {
    const near = new Set(devices);
    for (const d of devices) for (const q of d.queue_pairs) if (q.other) near.add(q.other.device);
    devices = [...near];
  }
  const nodes = new Map(), of = new Map(), edges = new Map();
  const add = (id, node) => nodes.get(id) ?? nodes.set(id, { id, devices: [], inside: 0, ...node }).get(id);
  for (const d of devices) {
    const n = devices.length > single ? add("program " + d.program, { kind: "group", name: d.program })
      : add(d.key, { kind: "device", name: d.program });
    n.devices.push(d);
    of.set(d, n);
  }
  const remote = new Set();
  for (const d of devices) for (const q of d.queue_pairs) if (q.peer && !q.other) remote.add(q.peer);
  for (const [d, n] of of) {
    for (const q of d.queue_pairs) {
      let to = of.get(q.other?.device);
      if (q.peer && !q.other) {
        to = remote.size > hosts ? add("hosts", { kind: "remote", name: remote.size + " peers", addresses: remote })
          : add("host " + q.peer, { kind: "remote", name: q.peer, addresses: new Set([q.peer]) });
      }
      if (to === n) n.inside++;
      if (to && to !== n) join(edges, n, to, q);
    }
  }
  for (const f of model.fabrics) {
    if (text.trim() !== "" && !matches(text, f.name, f.pid)) continue;
    const node = add("fabric " + f.pid + "/" + f.name, { kind: "fabric", name: f.name, fabric: f });
    for (const [d, n] of of) if (fabricOf(d) === f.name) join(edges, node, n, null);
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()] };
}

const finds = (text, q) => matches(text, qpn(q.qpn), q.qpn, q.peer ?? "", q.state);

// fabricOf returns the name of the fabric that a device is a port of.
export const fabricOf = (d) => /^ib:([^/]+)\//.exec(d.name)?.[1] ?? "";

// join adds a queue pair of n to the edge between two nodes.
function join(edges, n, to, q) {
  const [a, b] = n.id < to.id ? [n, to] : [to, n];
  const id = a.id + " – " + b.id;
  const e = edges.get(id) ?? edges.set(id, { id, a, b, from: [], to: [] }).get(id);
  if (q) (n === a ? e.from : e.to).push(q);
}

// place gives nodes x and y, and returns the size of the whole. Nodes that are connected lie in columns by
// their distance from the node with the most connections, groups of them one below the other.
export function place({ nodes, edges }, wide, high) {
  const near = new Map(nodes.map((n) => [n, []]));
  for (const e of edges) { near.get(e.a).push(e.b); near.get(e.b).push(e.a); }
  const order = [...nodes].sort((a, b) => near.get(b).length - near.get(a).length || (a.id < b.id ? -1 : 1));
  const seen = new Set(), islands = [];
  for (const first of order) {
    if (seen.has(first)) continue;
    seen.add(first);
    const columns = [[first]];
    for (let next = [first]; next.length > 0;) {
      next = next.flatMap((n) => near.get(n).filter((m) => !seen.has(m) && seen.add(m))).sort((a, b) => (a.id < b.id ? -1 : 1));
      if (next.length > 0) columns.push(next);
    }
    islands.push(island(columns, Math.ceil(Math.sqrt(nodes.length)) + 2));
  }
  return shelve(islands, wide / high);
}

// island places one group, from 0.
function island(columns, most) {
  const lanes = columns.flatMap((c) => Array.from({ length: Math.ceil(c.length / most) }, (_, i) => c.slice(i * most, (i + 1) * most)));
  const h = Math.max(...lanes.map((c) => c.length)) * (height + below) - below;
  lanes.forEach((c, i) => c.forEach((n, k) => {
    n.x = i * (width + between);
    n.y = (h - c.length * (height + below) + below) / 2 + k * (height + below);
  }));
  return { nodes: lanes.flat(), w: lanes.length * (width + between) - between, h };
}

// shelve puts islands on shelves of a width that suits the shape of the view.
function shelve(islands, shape) {
  const gap = 48;
  const area = islands.reduce((sum, i) => sum + (i.w + gap) * (i.h + gap), 0);
  const limit = Math.max(...islands.map((i) => i.w), Math.sqrt(area * shape), 1);
  let x = 0, y = 0, row = 0, w = 0;
  for (const i of islands) {
    if (x > 0 && x + i.w > limit) { x = 0; y += row + gap; row = 0; }
    for (const n of i.nodes) { n.x += x; n.y += y; }
    w = Math.max(w, x + i.w);
    row = Math.max(row, i.h);
    x += i.w + gap;
  }
  return { w, h: y + row };
}
