// Lessons: guided tours, of which each step runs real traffic and shows what was measured.

import { act, el, empty, say, svg } from "./dom.js";
import { why } from "./explain.js";
import { ladder } from "./ladder.js";
import { ask } from "./model.js";

let lessons = null, state = null; // as the server has them

export function open(root, page, args) {
  let closed = false, frame = null;
  async function load() {
    try {
      ({ lessons, state } = await ask("lessons"));
    } catch (err) {
      page.fail(err);
      return;
    }
    if (closed) return;
    const wanted = args[0] ?? (state?.running ? state.id : "");
    const l = lessons.find((x) => x.id === wanted);
    if (l) frame = show(root, page, l, Number(args[1] ?? 0));
    else choose(root, page);
  }
  load();
  return { update() {}, close() { closed = true; frame?.close(); } };
}

// choose shows all lessons.
function choose(root, page) {
  root.replaceChildren(el("section", { class: "panel lessons" },
    el("h2", {}, "Learn RDMA"),
    el("p", { class: "faint" }, "Each lesson opens devices on this machine and sends packets between them. You see the packets, the states and what was measured. " +
      "Nothing leaves the machine, and all is closed at the end."),
    el("ol", { class: "cards" }, lessons.map((l, i) => act(el("li", { class: "panel", "data-lesson": l.id },
      el("h2", {}, `${i + 1}. ${l.title}`), el("p", {}, l.summary), el("p", { class: "faint" }, `${l.steps.length} steps`)), l.title, () => page.go("lessons", l.id))))));
}

function show(root, page, lesson, wanted) {
  const mine = () => state?.id === lesson.id;
  const results = () => (mine() ? state.results : []);
  let at = wanted > 0 ? Math.min(wanted, lesson.steps.length) - 1 : Math.min(Math.max(results().length - 1, 0), lesson.steps.length - 1);
  let busy = false, closed = false;
  const title = el("h2", {}, lesson.title), text = el("div", { class: "scroll tale", tabindex: "0", role: "region", "aria-label": "Text" });
  const steps = el("ol", { class: "steps" }), go = el("button", { class: "go" }), end = el("button", {}, "End the lesson"), note = el("p", { class: "faint", role: "status" });
  const figures = el("dl", { class: "figures" }), charts = el("div", { class: "charts" }), circle = el("div", { class: "circle" });
  const packets = ladder();
  const drawn = el("section", { class: "panel titled grow" }, packets.root);
  const right = el("div", { class: "column" });
  root.replaceChildren(el("div", { class: "bar" }, el("button", { onclick: () => page.go("lessons", "all") }, "← All lessons"), title, el("span", { class: "push" }), end),
    el("div", { class: "split aside wide" },
      el("section", { class: "panel titled" }, el("div", { class: "bar" }, steps), text, el("div", { class: "bar foot" }, go, note)),
      right));
  go.addEventListener("click", advance);
  end.addEventListener("click", () => change("DELETE", "lessons"));

  async function change(method, route) {
    busy = true;
    paint();
    try {
      ({ state } = await ask(route, { method }));
      page.fail(null);
      return true;
    } catch (err) {
      page.fail(err);
      return false;
    } finally {
      busy = false;
      if (!closed) paint();
    }
  }

  // advance runs the step that is shown, or shows the next one.
  async function advance() {
    if (busy) return;
    const done = results().length;
    if (at < done && at + 1 < lesson.steps.length && (mine() && state.running || at + 1 < done)) {
      at++;
    } else if (mine() && state.running) {
      at = done;
      await change("POST", `lessons/${lesson.id}/next`);
    } else if (await change("POST", "lessons/" + lesson.id)) {
      at = 0;
      await change("POST", `lessons/${lesson.id}/next`);
    }
    paint();
    go.focus();
  }

  function paint() {
    const s = lesson.steps[at], r = results()[at], done = results().length, running = mine() && state.running;
    steps.replaceChildren(...lesson.steps.map((x, i) => act(el("li", { class: (i === at ? "now" : "") + (i < done ? " done" : ""), title: x.title }, String(i + 1)),
      `Step ${i + 1}, ${x.title}`, () => { if (!busy && i <= done) { at = i; paint(); } })));
    text.replaceChildren(el("h2", {}, s.title), ...s.text.map((p) => el("p", {}, p)),
      ...(r && r.said.length > 0 ? [el("h3", {}, "What happened"), ...r.said.map((p) => el("p", { class: "happened" }, p))] : []),
      ...(mine() && state.error && at === done - 1 ? [el("p", { class: "bad" }, state.error)] : []),
      ...(s.explain.length > 0 ? [el("h3", {}, "softrdma explain"), el("p", { class: "names" }, s.explain.map(why))] : []));
    const last = at + 1 === lesson.steps.length;
    say(go, busy ? "Runs …" : r && !last && (running || at + 1 < done) ? "Next step" : running && !r ? "Run this step" : "Start the lesson" + (done > 0 ? " again" : ""));
    go.disabled = busy;
    end.disabled = !running || busy;
    say(note, busy ? "sends real packets" : running ? (r ? "done" : "not run yet") : mine() && done > 0 ? state.ended || (done === lesson.steps.length ? "The lesson has ended, and closed what it opened." : "The lesson does not run.") : "");
    shown(r);
  }

  function shown(r) {
    if (!r) {
      right.replaceChildren(el("section", { class: "panel split" }, empty(busy ? "The step runs" : "Nothing was measured yet",
        busy ? "Devices send packets to each other." : "Run the step: figures, packets and charts of that run appear here.")));
      return;
    }
    figures.replaceChildren(...r.figures.flatMap((f) => [el("dt", {}, f.name), el("dd", { class: f.bad ? "bad" : "", title: f.value }, f.value)]));
    charts.replaceChildren(...r.charts.map(bars));
    circle.replaceChildren(...(r.circle.length > 0 ? [ring(r.circle)] : []));
    const all = [el("section", { class: "panel measured" }, figures)];
    if (r.charts.length > 0) all.push(el("section", { class: "panel measured" }, charts));
    if (r.circle.length > 0) all.push(el("section", { class: "panel grow measured" }, circle));
    if (r.ladder || r.quiet) all.push(drawn);
    right.replaceChildren(...all);
    packets.set(r.ladder, "The devices sent no packet in this step.");
    if (r.ladder) packets.fault();
  }
  paint();
  go.focus();
  return { close() { closed = true; packets.close(); } };
}

// bars draws values that are compared.
function bars(c) {
  const most = Math.max(...c.bars.map((b) => b.value), Number.MIN_VALUE), high = 26, names = 120, wide = 400, room = wide - names - 84;
  return el("figure", {}, el("figcaption", { class: "faint" }, c.title),
    svg("svg", { viewBox: `0 0 ${wide} ${c.bars.length * high}`, role: "img", "aria-label": `${c.title}: ${c.bars.map((b) => `${b.name} ${b.text}`).join(", ")}` },
      c.bars.map((b, i) => [svg("text", { x: 0, y: i * high + 17 }, b.name),
        svg("rect", { class: "value", x: names, y: i * high + 5, width: Math.max(b.value / most * room, 1), height: high - 10, rx: 2 }),
        svg("text", { class: "number", x: names + Math.max(b.value / most * room, 1) + 8, y: i * high + 17 }, b.text)])));
}

// ring draws lanes of which each waits for the next.
function ring(edges) {
  const w = 620, h = 300, n = edges.length;
  const place = (i) => { const a = 2 * Math.PI * i / n - Math.PI / 2; return [w / 2 + Math.cos(a) * 210, h / 2 + Math.sin(a) * 118]; };
  return svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": edges.map((e) => `${e.from} waits for ${e.to}`).join(", ") },
    svg("defs", {}, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { class: "tip", d: "M0 0L8 4L0 8z" }))),
    edges.map((e, i) => {
      const [x, y] = place(i), [u, v] = place(i + 1), dx = u - x, dy = v - y;
      const k = Math.min(78 / Math.abs(dx), 20 / Math.abs(dy)); // where the line leaves a box
      return svg("path", { class: "waits", d: `M${x + dx * k} ${y + dy * k}L${u - dx * k} ${v - dy * k}`, "marker-end": "url(#tip)" });
    }),
    edges.map((e, i) => {
      const [x, y] = place(i);
      return [svg("rect", { class: "stuck", x: x - 72, y: y - 14, width: 144, height: 28, rx: 5 }), svg("text", { x, y: y + 4, "text-anchor": "middle" }, e.from)];
    }),
    svg("text", { class: "faint", x: w / 2, y: h / 2, "text-anchor": "middle" }, "each lane waits for the next"));
}
