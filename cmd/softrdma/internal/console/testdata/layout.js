// What does not fit in the window: the page must not scroll, and no part of a view may reach beyond it. Panels
// scroll what they hold.
(() => {
  const found = [], root = document.scrollingElement;
  if (root.scrollHeight > innerHeight || root.scrollWidth > innerWidth || document.body.scrollHeight > innerHeight) {
    found.push(`the page has ${root.scrollWidth} × ${Math.max(root.scrollHeight, document.body.scrollHeight)}`);
  }
  for (const e of document.querySelectorAll("header > *, .panel, .bar, .bar > *, main button, main select, main input")) {
    const b = e.getBoundingClientRect(), inside = e.parentElement.closest(".scroll, .rows, .cable");
    if (inside || b.width === 0) continue;
    if (b.left < 0 || b.top < 0 || b.right > innerWidth + 0.5 || b.bottom > innerHeight + 0.5) {
      found.push(`${e.tagName} ${e.className} ${e.textContent.slice(0, 40)} reaches to ${b.right} × ${b.bottom}`);
    }
  }
  return found;
})()
