// Numbers as texts of a bounded width.

const units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

// three returns a number with three digits.
function three(v) {
  if (v >= 100 || v === 0) return v.toFixed(0);
  return v >= 10 ? v.toFixed(1) : v.toFixed(2);
}

export function count(v) {
  if (v === null || v === undefined) return "–";
  for (const [n, unit] of units) if (v >= n * 0.9995) return three(v / n) + " " + unit;
  return Number.isInteger(v) ? String(v) : three(v);
}

export function bytes(v) {
  if (v === null || v === undefined) return "–";
  const text = count(v);
  return text + (/[a-zA-Z]$/.test(text) ? "B" : " B");
}

export const bytesRate = (v) => (v === null || v === undefined ? "–" : bytes(v) + "/s");
export const rate = (v) => (v === null || v === undefined ? "–" : count(v) + "/s");

// time formats nanoseconds.
export function time(ns) {
  if (!ns) return "–";
  if (ns < 1e3) return ns + " ns";
  if (ns < 1e6) return three(ns / 1e3) + " µs";
  return ns < 1e9 ? three(ns / 1e6) + " ms" : three(ns / 1e9) + " s";
}

export const qpn = (n) => "0x" + n.toString(16).padStart(6, "0");
export const plural = (n, thing) => n + " " + thing + (n === 1 ? "" : "s");
export const short = (text, n) => (text.length <= n ? text : text.slice(0, n - 1) + "…");

// window says how much may be in flight.
export function window(m) {
  if (!m) return "–";
  if (m.rnr_wait) return "RNR";
  return m.lossless ? "no limit" : bytes(m.window ?? 0);
}
