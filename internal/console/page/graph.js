// The nodes and edges of the map, and where they lie.

import { byCable, fold } from "./fold.js";
import { findsDevice, matches, model } from "./model.js";
import { qpn } from "./format.js";

export const width = 216, height = 88;
const between = 250, below = 26; // columns and rows
const single = 16; // devices that are drawn one by one
const hosts = 8; // remote hosts, too
const programs = 16; // groups of devices, the last of which has all other programs
const switches = 10; // groups of switches of each fabric

// graph returns what the map shows for a search. Nodes have id, kind and devices; edges have nodes a and b
// and queue pairs from (of a) and to (of b), or are cables of a fabric: names, all links by name, and the names
// of nodes in a (first).
export function graph(text) {
  let devices = model.devices.filter((d) => findsDevice(text, d) || d.queue_pairs.some((q) => finds(text, q)));
  if (text.trim() !== "") {
    const near = new Set(devices);
    for (const d of devices) for (const q of d.queue_pairs) if (q.other) near.add(q.other.device);
    devices = [...near];
  }
  const nodes = new Map(), of = new Map(), edges = new Map(), group = grouping(devices);
  const add = (id, node) => nodes.get(id) ?? nodes.set(id, { id, devices: [], inside: 0, ...node }).get(id);
  for (const d of devices) {
    const n = devices.length > single ? add("program " + group(d), { kind: "group", name: group(d) })
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
  for (const f of model.fabrics) addFabric(f, text, of, add, edges);
  return { nodes: [...nodes.values()], edges: [...edges.values()] };
}

// grouping returns the function that names the group of a device: its program, or "other programs" where
// there are too many. Which these are depends on numbers of devices, which seldom change.
function grouping(devices) {
  const count = new Map();
  for (const d of devices) count.set(d.program, (count.get(d.program) ?? 0) + 1);
  if (count.size <= programs) return (d) => d.program;
  const first = [...count].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, programs - 1);
  const named = new Set(first.map(([name]) => name)), others = `${count.size - named.size} other programs`;
  return (d) => (named.has(d.program) ? d.program : others);
}

// addFabric adds the switches of a fabric, and the cables between them and to the devices that are its ports.
function addFabric(f, text, of, add, edges) {
  const ports = [...of].filter(([d]) => portOf(d)?.[1] === f.name), search = text.trim() !== "", whole = !search || matches(text, f.name, f.pid);
  const start = "fabric " + f.pid + "/" + f.name;
  if (f.error) {
    if (whole) add(start, { kind: "fabric", name: f.name, fabric: f });
    return;
  }
  const hits = new Set(search && !whole ? f.status.nodes.filter((n) => matches(text, n.name)).slice(0, single).map((n) => n.name) : []);
  if (!whole && hits.size === 0 && ports.length === 0) return;
  const g = fold(f, switches, (n) => hits.has(n)), all = byCable(f), drawn = new Map();
  const wanted = (n) => (n.kind === "switch" ? whole || ports.length > 0 : n.members.length === 1 && hits.has(n.members[0])) || near(g, n, hits);
  for (const n of g.nodes) if (wanted(n)) drawn.set(n, add(`${start} ${n.id}`, { kind: "switches", name: n.name, fabric: f, group: n, cables: all }));
  for (const e of g.edges) {
    const [a, b] = [drawn.get(e.a), drawn.get(e.b)];
    if (a && b) Object.assign(join(edges, a, b, null), { cables: e.cables, all, first: new Set((a.id < b.id ? e.a : e.b).members) });
  }
  for (const [d, n] of ports) {
    const own = portOf(d)[2];
    for (const l of f.links) {
      const i = l.ends.findIndex((e) => e.node === own);
      const at = i < 0 ? undefined : drawn.get(g.of.get(l.ends[1 - i].node));
      if (!at) continue;
      const e = join(edges, n, at, null);
      Object.assign(e, { cables: [...(e.cables ?? []), l.ends[0].name], all });
      if (n.id < at.id) (e.first ??= new Set()).add(own);
      else e.first = new Set(at.group.members);
    }
  }
}

// near reports whether a node is the neighbor of one that a search has found.
const near = (g, n, hits) => hits.size > 0 && (n.members.some((m) => hits.has(m)) ||
  (n.kind === "switch" && g.edges.some((e) => (e.a === n && e.b.members.some((m) => hits.has(m))) || (e.b === n && e.a.members.some((m) => hits.has(m))))));

const finds = (text, q) => matches(text, qpn(q.qpn), q.qpn, q.peer ?? "", q.state);

// portOf returns the fabric and the node of which a device is a port, null for other devices.
const portOf = (d) => (d.protocol === "InfiniBand" ? /^([^/@]+)\/(.+?)(?::\d+)?$/.exec(d.name) : null);

// join adds a queue pair of n to the edge between two nodes.
function join(edges, n, to, q) {
  const [a, b] = n.id < to.id ? [n, to] : [to, n];
  const id = a.id + " – " + b.id;
  const e = edges.get(id) ?? edges.set(id, { id, a, b, from: [], to: [] }).get(id);
  if (q) (n === a ? e.from : e.to).push(q);
  return e;
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
    const columns = [[first]], members = [first];
    for (let next = [first]; next.length > 0;) {
      next = next.flatMap((n) => near.get(n).filter((m) => !seen.has(m) && seen.add(m))).sort((a, b) => (a.id < b.id ? -1 : 1));
      if (next.length > 0) columns.push(next);
      members.push(...next);
    }
    const fits = Math.round(Math.sqrt(members.length * wide / high * (height + below) / (width + between)));
    islands.push(columns.length > Math.max(fits + 2, 4) ? winding(members, near, Math.max(fits, 2)) : island(columns, Math.ceil(Math.sqrt(nodes.length)) + 2));
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

// winding places one group of which a long chain is a part: down one column, up the next.
function winding(members, near, columns) {
  const order = [], seen = new Set();
  const visit = (n) => {
    if (seen.has(n)) return;
    seen.add(n);
    order.push(n);
    for (const m of near.get(n)) visit(m);
  };
  visit(members.at(-1)); // an end of the chain
  const rows = Math.ceil(order.length / columns);
  order.forEach((n, i) => {
    const column = Math.floor(i / rows), row = i % rows;
    n.x = column * (width + between);
    n.y = (column % 2 === 0 ? row : rows - 1 - row) * (height + below);
  });
  return { nodes: order, w: columns * (width + between) - between, h: rows * (height + below) - below };
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
