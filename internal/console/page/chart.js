// A line over time.

import { el, say, svg } from "./dom.js";

const span = 120e3; // ms that a chart shows
const wide = 1000, high = 100; // of the drawing, which is stretched

// chart makes a chart of one or two curves. A curve has name, value(sample) and, for the second, other.
export function chart(title, format, curves) {
  const top = el("span", { class: "faint mono scale" }), now = el("span", { class: "push mono" });
  const lines = curves.map((_, i) => svg("path", { class: i === 0 ? "curve" : "curve second" }));
  const picture = svg("svg", { viewBox: `0 0 ${wide} ${high}`, preserveAspectRatio: "none", role: "img", "aria-label": title },
    [0.5, 50, 99.5].map((y) => svg("path", { class: "grid", d: `M0 ${y}H${wide}` })), lines);
  const root = el("section", { class: "panel chart" }, el("div", { class: "bar" }, el("h2", {}, title),
    curves.length > 1 ? curves.map((c, i) => el("span", { class: i === 0 ? "key" : "key other" }, c.name)) : null, now), picture, top);

  // set shows samples, the oldest first.
  function set(samples) {
    const end = samples.at(-1)?.at ?? 0;
    const shown = samples.filter((s) => s.at >= end - span);
    const limit = round(Math.max(...shown.flatMap((s) => curves.map((c) => c.value(s) ?? 0)), 0));
    curves.forEach((c, i) => lines[i].setAttribute("d", path(shown, c.value, end, limit)));
    const last = samples.at(-1);
    say(top, shown.length > 0 ? format(limit) : "");
    say(now, last ? curves.map((c) => format(c.value(last))).join("  ·  ") : "");
    picture.setAttribute("aria-label", `${title}, the last two minutes, now ${now.textContent}`);
  }
  return { root, set };
}

// path draws a curve, with a gap where there is no value.
function path(samples, value, end, limit) {
  let d = "", pen = "M";
  for (const s of samples) {
    const v = value(s);
    if (v === null) { pen = "M"; continue; }
    d += `${pen}${(wide - (end - s.at) / span * wide).toFixed(1)} ${(high - 1 - v / limit * (high - 6)).toFixed(1)}`;
    pen = "L";
  }
  return d;
}

// round returns the next number of one or two digits and zeros.
function round(v) {
  if (v <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(v));
  return [1, 1.5, 2, 3, 5, 7.5, 10].find((n) => n * unit >= v) * unit;
}
