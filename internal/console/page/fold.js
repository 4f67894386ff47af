// Nodes and cables of a fabric as groups, so that a thousand of them stay readable.

const most = 64; // adapters up to which they are drawn one by one

// fold returns nodes and edges to draw for a fabric. Switches are grouped by their names without the last
// numbers, leaf-3-1 in leaf-3, or by their level, until there are no more than a number of groups. Adapters
// are grouped by the group of their switch. Nodes for which single reports true are drawn one by one.
//
// A node has id, name, kind (switch or adapter), members, rank and inside, the names of cables between its
// members. An edge has nodes a and b and the names of its cables. A cable's name is that of its first port.
export function fold(f, groups, single = () => false) {
  const ranks = levels(f), name = naming(f, groups, ranks), beside = new Map();
  for (const l of f.links) {
    for (const [e, o] of [l.ends, [l.ends[1], l.ends[0]]]) if (!beside.has(e.node)) beside.set(e.node, o.node);
  }
  const count = f.status.adapters, kinds = new Map(f.status.nodes.map((n) => [n.name, n.kind]));
  const nodes = new Map(), of = new Map(), edges = new Map();
  for (const n of f.status.nodes) {
    let group = n.name;
    if (!single(n.name)) {
      if (n.kind === "switch") group = name(n.name);
      else if (count > most) group = "at " + name(kinds.get(beside.get(n.name)) === "switch" ? beside.get(n.name) : n.name);
    }
    const id = n.kind + " " + group + (single(n.name) ? " alone" : "");
    const x = nodes.get(id) ?? nodes.set(id, { id, name: group, kind: n.kind, members: [], rank: ranks.get(n.name) ?? 1, inside: [] }).get(id);
    x.members.push(n.name);
    of.set(n.name, x);
  }
  for (const l of f.links) {
    const a = of.get(l.ends[0].node), b = of.get(l.ends[1].node), cable = l.ends[0].name;
    if (!a || !b) continue; // the far end of a trunk
    if (a === b) { a.inside.push(cable); continue; }
    const id = a.id < b.id ? a.id + " – " + b.id : b.id + " – " + a.id;
    (edges.get(id) ?? edges.set(id, { id, a, b, cables: [] }).get(id)).cables.push(cable);
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()], of };
}

// naming returns the function that names the group of a switch.
function naming(f, groups, ranks) {
  const switches = f.status.nodes.filter((n) => n.kind === "switch").map((n) => n.name);
  for (const numbers of [0, 1, 2, 3]) {
    const last = new RegExp(`(?:[-_.]?\\d+){0,${numbers}}$`);
    const name = (n) => n.replace(last, "") || n;
    if (new Set(switches.map(name)).size <= groups) return name;
  }
  return (n) => "level " + (ranks.get(n) ?? 1);
}

// levels returns the distance of each node from the adapters.
function levels(f) {
  const near = new Map(f.status.nodes.map((n) => [n.name, []]));
  for (const l of f.links) {
    const [a, b] = l.ends.map((e) => e.node);
    if (near.has(a) && near.has(b)) { near.get(a).push(b); near.get(b).push(a); }
  }
  const rank = new Map(f.status.nodes.filter((n) => n.kind !== "switch").map((n) => [n.name, 0]));
  for (let next = [...rank.keys()]; next.length > 0;) {
    next = next.flatMap((n) => near.get(n).filter((m) => !rank.has(m) && rank.set(m, rank.get(n) + 1)));
  }
  return rank;
}

// sent returns the bytes a second that an end of a cable sends.
export const sent = (l, i) => l.ends[i].load * (l.rate ?? 0) / 8;

// wrong returns how many bad packets came in at an end of a cable, and how many could not leave by it.
export const wrong = (e) => e.errors + e.discards;

// byCable returns the cables of a fabric by their names.
export const byCable = (f) => new Map(f.links.map((l) => [l.ends[0].name, l]));

// total sums up some cables: how many are active, bytes a second from each side and the highest load. from
// reports whether a node is on the first side.
export function total(cables, all, from) {
  const t = { cables: cables.length, active: 0, there: 0, back: 0, load: 0, errors: 0 };
  for (const c of cables) {
    const l = all.get(c);
    if (!l) continue;
    if (l.state === "active") t.active++;
    const first = from(l.ends[0].node) ? 0 : 1;
    t.there += sent(l, first);
    t.back += sent(l, 1 - first);
    t.load = Math.max(t.load, l.ends[0].load, l.ends[1].load);
    t.errors += wrong(l.ends[0]) + wrong(l.ends[1]);
  }
  return t;
}
