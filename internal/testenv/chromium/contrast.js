// Contrast of what is visible, by WCAG 2.2 (1.4.3 and 1.4.11): returns how many pairs of colors it has compared,
// and those that are too alike.
(() => {
  const color = (text) => {
    const n = text.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    return text.startsWith("color(") ? [n[0] * 255, n[1] * 255, n[2] * 255, n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1];
  };
  const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  // paint returns the color that an element has at a point of it.
  const paint = (e) => {
    const s = getComputedStyle(e);
    if (!(e instanceof SVGElement) || e.tagName === "svg") return color(s.backgroundColor);
    return color(s.fill !== "none" ? s.fill : s.stroke);
  };
  // ground returns the color below an element at a point, null where the element is not seen.
  const ground = (e, x, y) => {
    const all = document.elementsFromPoint(x, y);
    const i = all.findIndex((o) => o === e);
    if (i < 0 || all.slice(0, i).some((o) => !e.contains(o) && paint(o)[3] > 0.5)) return null;
    const html = !(e instanceof SVGElement);
    const below = all.slice(html ? i : i + 1).filter((o) => o.tagName !== "text" && o.tagName !== "tspan").map(paint);
    return below.reverse().reduce((c, layer) => over(layer, c), [255, 255, 255, 1]);
  };
  const faint = (e) => {
    let part = 1;
    for (let o = e; o; o = o.parentElement) part *= Number(getComputedStyle(o).opacity);
    return part;
  };
  const found = new Map(), compared = new Set();
  const judge = (what, front, back, need) => {
    const key = `${front.map(Math.round)} on ${back.map(Math.round)}`, r = ratio(over(front, back), back);
    compared.add(key + need);
    if (r < need) found.set(what.slice(0, 60) + key, `${what.slice(0, 60)}: ${key} is ${r.toFixed(2)}:1, expected ${need}:1`);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const e = n.parentElement;
    if (n.textContent.trim() === "" || e.closest("option, script, noscript, title, :disabled")) continue;
    const range = document.createRange();
    range.selectNodeContents(n);
    const box = range.getBoundingClientRect(), s = getComputedStyle(e);
    if (box.width === 0 || s.visibility !== "visible") continue;
    const front = color(e instanceof SVGElement ? s.fill : s.color), size = parseFloat(s.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(s.fontWeight) >= 700);
    front[3] *= faint(e);
    for (const part of [0.1, 0.5, 0.9]) {
      const back = ground(e, box.left + box.width * part, box.top + box.height / 2);
      if (back) judge(n.textContent.trim(), front, back, large ? 3 : 4.5);
    }
  }
  for (const e of document.querySelectorAll("input, select, button, .node > rect, .wire, .curve, .arrow, .switch")) {
    const s = getComputedStyle(e), box = e.getBoundingClientRect();
    if (box.width + box.height === 0 || s.visibility !== "visible" || s.display === "none" || e.disabled) continue;
    const behind = e.closest(".panel") ?? e.parentElement;
    let back = [255, 255, 255, 1];
    for (let o = behind; o; o = o.parentElement) if (color(getComputedStyle(o).backgroundColor)[3] > 0) { back = color(getComputedStyle(o).backgroundColor); break; }
    const name = e.tagName + " " + (e.getAttribute("class") ?? e.id ?? "") + " " + (e.parentElement.getAttribute("class") ?? "");
    if (e instanceof SVGElement) {
      const front = color(s.stroke !== "none" ? s.stroke : s.fill);
      front[3] *= faint(e);
      judge(name, front, back, 3);
    } else if (s.borderTopStyle !== "none" && parseFloat(s.borderTopWidth) > 0) {
      const edge = color(s.borderTopColor), own = color(s.backgroundColor);
      judge(name, ratio(over(edge, back), back) > ratio(over(own, back), back) ? edge : own, back, 3); // either shows where it ends
    }
    if (e.placeholder) judge(e.placeholder, color(getComputedStyle(e, "::placeholder").color), color(s.backgroundColor), 4.5);
  }
  return { compared: compared.size, found: [...found.values()] };
})()
