// A fabric: its switches, adapters and cables, the path between two ports, and cables to cut.

import { act, el, empty, say, svg } from "./dom.js";
import { count, plural, short } from "./format.js";
import { ask, model } from "./model.js";

const small = 240; // nodes up to which adapters are drawn one by one

export function open(root, page, args) {
  let frame = null, of = "";
  return {
    update() {
      const f = model.fabrics.find((x) => String(x.pid) === args[0] && x.name === args[1]) ?? model.fabrics[0];
      const key = f ? f.pid + "/" + f.name : "none";
      if (key !== of) {
        frame?.close();
        root.replaceChildren();
        frame = f ? show(root, page, f) : null;
        of = key;
        if (!f) root.append(el("section", { class: "panel split" }, empty("No fabric runs",
          "This view shows InfiniBand fabrics of softrdma: switches, adapters, cables and routes. Start one, for example:",
          "softrdma fabric up --topology fat-tree:k=4")));
      }
      if (f) frame.update(f);
    },
    close() { frame?.close(); },
  };
}

function show(root, page, first) {
  const title = el("h2"), state = el("span", { class: "faint" });
  const others = model.fabrics.length > 1 ? el("select", { "aria-label": "Fabric" },
    model.fabrics.map((f) => el("option", { value: f.pid + "/" + f.name }, f.name))) : null;
  if (others) {
    others.value = first.pid + "/" + first.name;
    others.addEventListener("change", () => page.go("fabric", ...others.value.split("/")));
  }
  const from = el("select", { "aria-label": "From" }), to = el("select", { "aria-label": "To" }), trace = el("button", {}, "Trace");
  const chosen = el("span", {}), cut = el("button", { hidden: true });
  const picture = el("section", { class: "panel map", "aria-label": "Topology" });
  const hops = el("p", { class: "mono" }, "Choose two adapters to see the path between them, or a cable to cut it.");
  root.append(el("div", { class: "bar" }, title, others, state, el("span", { class: "push" }, "From"), from, el("span", {}, "to"), to, trace),
    picture, el("div", { class: "bar" }, hops, el("span", { class: "push" }), chosen, cut));
  let fabric = first, shape = "", drawn = null, cable = null, path = null;

  async function question(verb, ...args) {
    try {
      const at = `processes/${fabric.pid}/fabrics/${encodeURIComponent(fabric.name)}`;
      const r = await ask(at, { method: "POST", body: JSON.stringify({ verb, args }) });
      page.fail(null);
      return r;
    } catch (err) {
      page.fail(err);
      return null;
    }
  }

  async function follow() {
    const t = (await question("trace", from.value, to.value))?.trace;
    if (!t) return;
    path = t;
    const lost = t.broken ? `, lost at ${t.broken.node}: ${t.broken.text}` : "";
    say(hops, t.hops.map((h) => h.node + (h.out ? ":" + h.out : "")).join(" → ") + lost);
    hops.classList.toggle("bad", Boolean(t.broken));
    drawn?.(fabric, path, cable);
  }
  trace.addEventListener("click", follow);
  cut.addEventListener("click", async () => {
    const l = fabric.links.find((x) => x.ends[0].name === cable);
    if (!l) return;
    cut.disabled = true;
    const r = await question(l.state === "cut" ? "link-up" : "link-down", cable);
    cut.disabled = false;
    if (r?.links?.[0]) { l.state = r.links[0].state; update(fabric); }
  });
  const redraw = () => { shape = ""; update(fabric); };
  addEventListener("resize", redraw);

  function update(f) {
    fabric = f;
    say(title, "Fabric " + f.name);
    if (f.error) { say(state, f.error); return; }
    const counts = Object.entries(f.status.links).map(([s, n]) => `${n} ${s}`).join(", ");
    say(state, `${plural(f.status.switches, "switch").replace("switchs", "switches")}, ${plural(f.status.adapters, "adapter")}, cables: ${counts}`);
    options(from, f, 0);
    options(to, f, 1);
    const now = [picture.clientWidth, picture.clientHeight, ...f.status.nodes.map((n) => n.name), ...f.links.map((l) => l.ends[0].name)].join("\n");
    if (now !== shape) {
      shape = now;
      drawn = draw(picture, f, (l) => { cable = cable === l ? null : l; update(fabric); });
    }
    drawn(f, path, cable);
    const l = f.links.find((x) => x.ends[0].name === cable);
    say(chosen, l ? `${l.ends[0].name} – ${l.ends[1].name}, ${[l.width, l.speed, l.state].filter(Boolean).join(" ")}, ` +
      `${count(l.ends[0].errors + l.ends[1].errors)} errors` : "");
    cut.hidden = !l;
    say(cut, l?.state === "cut" ? "Repair the cable" : "Cut the cable");
  }
  return { update, close: () => removeEventListener("resize", redraw) };
}

function options(list, f, initial) {
  const names = f.status.nodes.filter((n) => n.kind === "adapter").map((n) => n.name);
  if ([...list.options].map((o) => o.value).join("\n") === names.join("\n")) return;
  list.replaceChildren(...names.map((n) => el("option", { value: n }, n)));
  list.selectedIndex = initial === 0 ? 0 : names.length - 1;
}

// ranks returns the nodes in rows: adapters last, switches by their distance from adapters.
function ranks(f) {
  const near = new Map(f.status.nodes.map((n) => [n.name, []]));
  for (const l of f.links) {
    const [a, b] = l.ends.map((e) => e.node);
    if (near.has(a) && near.has(b)) { near.get(a).push(b); near.get(b).push(a); }
  }
  const rank = new Map(f.status.nodes.filter((n) => n.kind === "adapter").map((n) => [n.name, 0]));
  for (let next = [...rank.keys()]; next.length > 0;) {
    next = next.flatMap((n) => near.get(n).filter((m) => !rank.has(m) && rank.set(m, rank.get(n) + 1)));
  }
  const rows = [];
  for (const n of f.status.nodes) (rows[rank.get(n.name) ?? 1] ??= []).push(n);
  return { rows: rows.filter(Boolean).reverse(), near };
}

function draw(panel, f, choose) {
  const w = panel.clientWidth || 1200, h = panel.clientHeight || 500;
  const { rows, near } = ranks(f);
  const at = new Map(), many = f.status.nodes.length > small;
  const picture = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "group", "aria-label": "Topology" });
  rows.forEach((row, i) => {
    if (i > 0) row = sorted(row, near, at);
    row.forEach((n, k) => at.set(n.name, { x: (k + 0.5) * w / row.length, y: (i + 0.5) * h / rows.length, room: w / row.length, kind: n.kind }));
  });
  const cables = new Map();
  for (const l of f.links) {
    const a = at.get(l.ends[0].node), b = at.get(l.ends[1].node);
    if (!a || !b) continue;
    const d = a.y === b.y ? `M${a.x} ${a.y}Q${(a.x + b.x) / 2} ${a.y - 40 - Math.abs(a.x - b.x) / 8} ${b.x} ${b.y}` : `M${a.x} ${a.y}L${b.x} ${b.y}`;
    const wire = svg("path", { d, class: "wire" });
    const hint = svg("title");
    const name = l.ends[0].name;
    const g = act(svg("g", { class: "edge" }, hint, svg("path", { d, class: "reach" }), wire), name, () => choose(name));
    if (many) g.removeAttribute("tabindex");
    cables.set(name, { g, wire, hint });
    picture.append(g);
  }
  for (const [name, n] of at) {
    const sw = n.kind === "switch", bw = Math.min(Math.max(n.room - 6, 6), sw ? 92 : 70), bh = sw ? 30 : 26;
    const g = svg("g", { class: sw ? "node fabric" : "node", transform: `translate(${n.x - bw / 2} ${n.y - bh / 2})` }, svg("title", {}, name),
      svg("rect", { width: bw, height: bh, rx: sw ? 4 : 13 }),
      bw > 34 ? svg("text", { x: bw / 2, y: bh / 2 + 4, "text-anchor": "middle" }, short(name, Math.floor(bw / 7.2))) : null);
    picture.append(g);
  }
  panel.replaceChildren(picture);
  return (now, path, cable) => {
    const used = new Set();
    for (const hop of path?.hops ?? []) if (hop.out) { used.add(hop.node + ":" + hop.out); used.add(hop.to); }
    for (const l of now.links) {
      const c = cables.get(l.ends[0].name);
      if (!c) continue;
      const load = Math.max(l.ends[0].load, l.ends[1].load);
      const text = `${l.ends[0].name} – ${l.ends[1].name}: ${l.state}, load ${(100 * load).toFixed(0)} %`;
      say(c.hint, text);
      c.g.setAttribute("aria-label", text);
      c.g.classList.toggle("broken", l.state !== "active");
      c.g.classList.toggle("busy", load > 0.001);
      c.g.classList.toggle("used", l.ends.some((e) => used.has(e.node + ":" + e.port) || used.has(e.name)));
      c.g.classList.toggle("chosen", l.ends[0].name === cable);
      c.wire.setAttribute("stroke-width", (1.4 + 5 * load).toFixed(1));
    }
  };
}

// sorted puts the nodes of a row below what they are connected with.
function sorted(row, near, at) {
  const middle = (n) => {
    const xs = near.get(n.name).map((m) => at.get(m)?.x).filter((x) => x !== undefined);
    return xs.length > 0 ? xs.reduce((s, x) => s + x, 0) / xs.length : 0;
  };
  return row.map((n, i) => [middle(n), i, n]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, , n]) => n);
}
