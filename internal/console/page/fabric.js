// A fabric: its switches, adapters and cables, the route between two ports, circles in which packets wait for
// each other, and cables to cut.

import { el, empty, list, say, titled } from "./dom.js";
import { history, showCables, showCircles, showRoute } from "./fabricside.js";
import { byCable, fold } from "./fold.js";
import { plural } from "./format.js";
import { ask, matches, model } from "./model.js";
import { portTable } from "./ports.js";
import { draw } from "./topology.js";

const groups = 40; // of switches in the drawing
const members = 16; // of a group, up to which it opens
const settle = 2000; // ms after a change in which snapshots can be older
const found = 24; // nodes that a search finds, up to which they are drawn one by one

export function open(root, page, args) {
  let frame = null, of = "";
  return {
    update() {
      const f = model.fabrics.find((x) => String(x.pid) === args[0] && x.name === args[1]) ?? model.fabrics[0];
      const key = f ? f.pid + "/" + f.name : "none";
      if (key !== of) {
        frame?.close();
        root.replaceChildren();
        frame = f ? show(root, page, f, args[2] ?? "drawing") : null;
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

function show(root, page, first, part) {
  let fabric = first, shape = "", drawn = null, cables = [], path = null, circle = null, changed = null, closed = false;
  const opened = new Set();
  const title = el("h2"), state = el("span", { class: "faint cut-off" });
  const others = model.fabrics.length > 1 ? el("select", { "aria-label": "Fabric" },
    model.fabrics.map((f) => el("option", { value: f.pid + "/" + f.name }, f.name))) : null;
  if (others) {
    others.value = first.pid + "/" + first.name;
    others.addEventListener("change", () => page.go("fabric", ...others.value.split("/")));
  }
  const tabs = el("div", { class: "tabs push", role: "group", "aria-label": "Show" }, [["drawing", "Drawing"], ["ports", "Ports"]].map(([id, name]) =>
    el("button", { "aria-pressed": String(id === part), onclick: () => page.go("fabric", fabric.pid, fabric.name, id) }, name)));
  const whole = el("button", { hidden: true, onclick: () => { opened.clear(); update(fabric); } }, "Fold all groups");
  const picture = el("section", { class: "panel map", "aria-label": "Topology" });
  const ports = part === "ports" ? portTable(page, (cable) => { choose([cable]); }) : null;
  const from = el("select", { "aria-label": "From" }), to = el("select", { "aria-label": "To" }), trace = el("button", { class: "small" }, "Trace");
  const hops = el("ul", { class: "lines" }), chosen = el("div", { class: "cable" }), waits = el("ul", { class: "lines" });
  const log = history();
  const ends = el("div", { class: "between" }, from, el("span", {}, "to"), to, trace);
  root.append(el("div", { class: "bar" }, title, others, state, tabs, whole),
    el("div", { class: "split fabric-page" }, ports ? ports.root : picture,
      el("div", { class: "column" }, titled("route", "Route", [ends, hops]), titled("cables", "Cable", chosen),
        titled("circles", "Deadlocks", waits), titled("log", "What happened", log.root))));
  list(hops, ["Choose two ports to see the route of packets between them."]);
  list(waits, ["…"]);

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

  const look = paced(1000, async () => {
    const wanted = path?.ends;
    const t = wanted ? (await question("trace", ...wanted))?.trace : null;
    if (!t || closed || path?.ends !== wanted) return;
    log.route(path.trace, t);
    path.trace = t;
    refresh();
  });
  const turns = paced(2000, async () => {
    const d = (await question("deadlock"))?.deadlock;
    if (!d || closed) return;
    if ((circle?.deadlock.length ?? 0) === 0 && d.deadlock.length > 0) log.add(`deadlock of ${plural(d.deadlock.length, "lane")}`);
    if (circle?.deadlock.length > 0 && d.deadlock.length === 0) log.add("the deadlock has ended");
    circle = d;
    refresh();
  });

  function follow(a, b) {
    path = { ends: [a, b], trace: null };
    look(true);
  }
  trace.addEventListener("click", () => follow(from.value, to.value));

  function choose(names) {
    cables = cables.join() === names.join() ? [] : names;
    update(fabric);
  }

  // change cuts or repairs a cable. Where no route is shown, it shows the one between the cable's nodes.
  async function change(l) {
    const up = l.state === "cut";
    if (!up && !path && l.ends[1].port > 0) follow(l.ends[0].node, l.ends[1].node);
    const r = await question(up ? "link-up" : "link-down", l.ends[0].name);
    if (!r?.links?.[0] || closed) return;
    log.links(new Map([[l.ends[0].name, l]]), r.links);
    changed = { cable: l.ends[0].name, before: l.state, after: r.links[0].state, until: performance.now() + settle };
    l.state = r.links[0].state;
    update(fabric);
    look(true);
    turns(true);
  }

  // alone reports whether a node is drawn one by one though others of its group are not.
  function alone(f) {
    const names = new Set();
    for (const n of [...opened, ...(path?.trace?.hops ?? []).map((h) => h.node), ...(circle?.deadlock ?? []).map((c) => c.node)]) names.add(n);
    for (const l of f.links) if (cables.length === 1 && l.ends[0].name === cables[0]) for (const e of l.ends) names.add(e.node);
    const text = page.search();
    const hits = text.trim() === "" ? [] : f.status.nodes.filter((n) => matches(text, n.name)).map((n) => n.name);
    if (hits.length <= found) for (const n of hits) names.add(n);
    return names;
  }

  function refresh() {
    if (fabric.error) return;
    if (!ports) {
      const single = alone(fabric);
      const now = [picture.clientWidth, picture.clientHeight, fabric.status.nodes.length, fabric.links.length, ...[...single].sort()].join("\n");
      if (now !== shape) {
        shape = now;
        drawn = draw(picture, fold(fabric, groups, (n) => single.has(n)), { choose, open: openGroup });
      }
      drawn(fabric, marks(fabric, cables, path?.trace, circle));
    }
    showRoute(hops, path, fabric);
    showCircles(waits, circle, fabric);
  }

  function openGroup(n) {
    if (n.members.length > members || n.members.length === 1) {
      const names = new Set(n.members);
      choose(fabric.links.filter((l) => l.ends.some((e) => names.has(e.node))).map((l) => l.ends[0].name));
      return;
    }
    for (const m of n.members) opened.add(m);
    update(fabric);
  }

  const redraw = () => { shape = ""; update(fabric); };
  addEventListener("resize", redraw);

  function update(f) {
    if (f !== fabric) {
      // A snapshot may be of the time before the change.
      if (changed && performance.now() < changed.until) {
        for (const l of f.links ?? []) if (l.ends[0].name === changed.cable && l.state === changed.before) l.state = changed.after;
      }
      log.snapshot(fabric, f);
    }
    fabric = f;
    say(title, "Fabric " + f.name);
    if (f.error) { say(state, f.error); return; }
    const n = Object.entries(f.status.links).map(([s, k]) => `${k} ${s}`).join(", "), m = f.status.manager;
    const host = f.status.network === "Ethernet" ? "host" : "adapter";
    say(state, `${plural(f.status.switches, "switch").replace("switchs", "switches")}, ${plural(f.status.adapters, host)}, cables: ${n}` +
      (host === "host" ? "" : m.node ? `, manager on ${m.node}` : ", no subnet manager"));
    options(from, f, 0);
    options(to, f, 1);
    whole.hidden = opened.size === 0;
    refresh();
    ports?.set(f);
    showCables(chosen, cables.map((c) => byCable(f).get(c)).filter(Boolean), choose, change);
    look();
    turns();
  }
  return { update, close() { closed = true; ports?.close(); removeEventListener("resize", redraw); } };
}

// paced returns a function that calls f, unless it runs or has ended shortly before. What takes long is called
// less often, because the fabric answers between its packets.
function paced(least, f) {
  let busy = false, next = 0;
  return async (now = false) => {
    if (busy || (!now && performance.now() < next)) return;
    busy = true;
    const began = performance.now();
    await f();
    next = performance.now() + Math.max(least - 100, 20 * (performance.now() - began));
    busy = false;
  };
}

// options fills a choice with the adapters and switches of a fabric.
function options(choice, f, initial) {
  const names = (kind) => f.status.nodes.filter((n) => n.kind === kind).map((n) => n.name);
  if (choice.of === f.status.nodes.length) return;
  choice.of = f.status.nodes.length;
  const hosts = names("host"), adapters = [...names("adapter"), ...hosts];
  choice.replaceChildren(...(hosts.length > 0 ? [["Hosts", hosts]] : [["Adapters", adapters], ["Switches", names("switch")]]).map(([label, all]) =>
    el("optgroup", { label }, all.map((n) => el("option", { value: n }, n)))));
  choice.selectedIndex = initial === 0 ? 0 : Math.max(adapters.length - 1, 0);
}

// marks returns what is special about an edge, and which way packets go there: on the route or in a circle.
function marks(f, cables, trace, circle) {
  const chosen = new Set(cables), route = new Set(), turns = new Set(), sender = { used: new Map(), turn: new Map() };
  const dead = (circle?.deadlock.length ?? 0) > 0;
  for (const h of trace?.hops ?? []) if (h.out) route.add(h.node + ":" + h.out);
  for (const c of (dead ? circle.deadlock : circle?.cycle) ?? []) turns.add(c.node + ":" + c.port);
  const still = new Set((circle?.still ?? []).map((c) => c.node + ":" + c.port)), paused = new Set();
  for (const l of f.links) {
    for (const e of l.ends) {
      const end = e.node + ":" + e.port;
      if (still.has(end)) paused.add(l.ends[0].name);
      if (route.has(end)) sender.used.set(l.ends[0].name, e.node);
      if (turns.has(end)) sender.turn.set(l.ends[0].name, e.node);
    }
  }
  return {
    of(e) {
      const from = (all) => all.get(e.cables.find((c) => all.has(c)));
      const used = from(sender.used), turn = from(sender.turn), node = turn ?? used;
      const name = [e.cables.some((c) => chosen.has(c)) ? "chosen" : "", used ? "used" : "", turn ? (dead ? "dead" : "loop") : "",
        e.cables.some((c) => paused.has(c)) ? "still" : ""];
      return { name: name.filter(Boolean).join(" "), back: node !== undefined && !e.a.members.includes(node) };
    },
  };
}
