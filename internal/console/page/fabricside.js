// What stands beside the drawing of a fabric: the route, the chosen cable, circles, and what happened.

import { el, list, say } from "./dom.js";
import { byCable, sent, wrong } from "./fold.js";
import { bytesRate, count, plural, time } from "./format.js";

const remembered = 200; // lines of what happened
const shown = 24; // cables between two groups of which each is named

// laneWord is what a network calls the lanes of its links.
const laneWord = (f) => f.status.network === "Ethernet" ? "priority" : "lane";

// showRoute shows a route hop by hop, with what its cables carry now.
export function showRoute(root, path, f) {
  if (!path) return;
  const t = path.trace;
  if (!t) { list(root, [`${path.ends[0]} → ${path.ends[1]} …`]); return; }
  const bySender = new Map();
  for (const l of f.links) l.ends.forEach((e, i) => bySender.set(e.node + ":" + e.port, [l, i]));
  const lines = t.hops.map((h) => {
    const [l, i] = bySender.get(h.node + ":" + h.out) ?? [];
    const carries = l ? `  ${bytesRate(sent(l, i))}` : "";
    const why = (h.among ? `, by ${h.by} of ${h.among.join(", ")}` : "") + (h.paused ? `, paused for ${time(h.paused)}` : "");
    return (h.in ? `${h.in} → ` : "") + h.node + (h.out ? ` → ${h.out}` : "") + why + carries;
  });
  const n = t.hops.length - 1;
  const head = t.broken ? `lost at ${t.broken.node}: ${t.broken.text}`
    : `${t.from} → ${t.to}: ${t.to_ip || `LID ${t.dlid}`}, ${plural(n, "hop")}${t.hops[0]?.vl >= 0 ? `, ${laneWord(f)} ${t.hops[0].vl}` : ""}`;
  list(root, [head, ...lines]);
  root.firstChild.className = t.broken ? "bad" : "";
}

// showCables shows the cables of the chosen edge: one with its figures and the button to cut it, or several to
// choose from.
export function showCables(root, links, choose, change) {
  const key = links.map((l) => l.ends[0].name).join("\n") || "none";
  if (root.dataset.of !== key) {
    root.dataset.of = key;
    root.show = links.length === 1 ? one(root, links[0], change) : several(root, links, choose);
  }
  root.show(links);
}

function several(root, links, choose) {
  if (links.length === 0) {
    root.replaceChildren(el("p", { class: "faint" }, "Choose a cable in the drawing, or a port, to see what it carries and to cut it."));
    return () => {};
  }
  const rows = links.slice(0, shown).map((l) => el("button", { class: "line", onclick: () => choose([l.ends[0].name]) }));
  const rest = links.length > shown ? el("p", { class: "faint" }, `and ${links.length - shown} more: search for one, or look at the ports`) : null;
  root.replaceChildren(...rows, ...(rest ? [rest] : []));
  return (now) => rows.forEach((r, i) => say(r, `${now[i].ends[0].name} – ${now[i].ends[1].name}  ${now[i].state}  ` +
    bytesRate(sent(now[i], 0) + sent(now[i], 1))));
}

function one(root, first, change) {
  const cells = () => [0, 1, 2, 3, 4].map(() => el("td", { class: "right" }));
  const state = el("span"), button = el("button", { class: "small" }), a = cells(), b = cells();
  let latest = first;
  button.addEventListener("click", async () => {
    button.disabled = true;
    await change(latest);
    button.disabled = false;
  });
  const row = (e, list) => el("tr", {}, el("th", { scope: "row", title: e.name }, e.name), list);
  root.replaceChildren(el("div", { class: "bar" }, state, el("span", { class: "push" }), button),
    el("table", {}, el("tr", {}, ["port", "sent", "waited", "errors", "lost", "down"].map((t, i) => el("th", { scope: "col", class: i > 0 ? "right" : "" }, t))),
      row(first.ends[0], a), row(first.ends[1], b)));
  return ([l]) => {
    latest = l;
    say(state, [l.width, l.speed, l.state].filter(Boolean).join(" "));
    state.className = l.state === "active" ? "good" : "bad";
    say(button, l.state === "cut" ? "Repair the cable" : "Cut the cable");
    [a, b].forEach((list, i) => {
      const e = l.ends[i];
      [bytesRate(sent(l, i)), time(e.wait), count(e.errors), count(e.discards), count(e.downed)]
        .forEach((v, k) => say(list[k], v));
    });
  };
}

// showCircles says whether packets wait for each other in a circle, or can.
export function showCircles(root, d, f) {
  if (!d) return;
  const word = laneWord(f), name = (x) => `${x.node}:${x.port} ${word} ${x.vl}`, turn = (c) => c.map(name);
  const lines = [];
  if (d.deadlock.length > 0) lines.push("Deadlock: packets on these lanes wait for each other", ...turn(d.deadlock));
  else if (d.cycle.length > 0) lines.push("No deadlock now. The tables allow one: each lane can wait for the next", ...turn(d.cycle));
  else lines.push("No deadlock, and the tables allow none");
  if (d.still.length > d.deadlock.length) {
    lines.push(`${d.still.length} stand still, ${word === "lane" ? "without credit" : "paused"}:`, ...d.still.slice(0, shown).map((l) =>
      `${name(l)}, ${time(l.time)}, ${plural(l.packets, "packet")}, waits for ${l.waits.length > 0 ? turn(l.waits).join(", ") : l.cause}`));
  }
  list(root, lines);
  root.firstChild.className = d.deadlock.length > 0 ? "bad" : d.cycle.length > 0 ? "warn" : "good";
}

// history keeps what happened to a fabric while the page was open.
export function history() {
  const root = el("ul", { class: "lines", "aria-live": "polite" });
  let since = 0; // when a cable changed last
  root.append(el("li", { class: "faint" }, "Nothing yet. Cut a cable, and the subnet manager finds other paths."));
  function add(text) {
    if (root.firstChild?.className === "faint") root.replaceChildren();
    root.prepend(el("li", {}, `${new Date().toTimeString().slice(0, 8)} ${text}`));
    while (root.children.length > remembered) root.lastChild.remove();
  }
  function links(before, after) {
    for (const l of after) {
      const was = before.get(l.ends[0].name)?.state;
      if (was === undefined || was === l.state) continue;
      since = performance.now();
      add(`${l.ends[0].name} – ${l.ends[1].name}: ${was} → ${l.state}`);
    }
  }
  return {
    root, add, links,
    snapshot(before, after) {
      if (before.error || after.error) return;
      links(byCable(before), after.links);
      const [a, b] = [before.status.manager.node, after.status.manager.node];
      if (a !== b) add(b ? `the subnet manager is on ${b}` : "no subnet manager any more");
    },
    // route compares a route with the one before.
    route(before, after) {
      const way = (t) => (t.broken ? "lost at " + t.broken.node : t.hops.map((h) => h.node).join(" → "));
      const ports = (t) => (t?.broken ? t.broken.node : t?.hops.map((h) => h.node + ":" + h.out).join());
      if (!before || (ports(before) === ports(after) && Boolean(before.broken) === Boolean(after.broken))) return;
      const after_ = since > 0 ? `, ${((performance.now() - since) / 1000).toFixed(1)} s after the change` : "";
      add(after.broken ? `route ${way(after)}` : `new route: ${way(after)}${after_}`);
    },
  };
}
