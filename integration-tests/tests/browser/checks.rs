//! Checks of the page, as scripts that run in it.

/// Runs that lie over each other, are cut, or stand out of the page: a list of complaints. Text
/// that has scrolled out of its box is not looked at.
pub(crate) const LAYOUT: &str = r"
const wrong = [];
const page = document.documentElement;
if (page.scrollWidth > innerWidth) wrong.push(`the page is ${page.scrollWidth} wide, its window ${innerWidth}`);
const boxes = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const text = walk.currentNode, of = text.parentElement;
  if (!text.data.trim() || of.closest('script, noscript, option, datalist, .skip, .unseen') || !of.checkVisibility()) continue;
  const range = document.createRange();
  range.selectNodeContents(text);
  for (const rect of range.getClientRects()) {
    let [left, top, right, bottom] = [rect.left, rect.top, rect.right, rect.bottom];
    const scroll = of.closest('.scroll');
    if (scroll) {
      const frame = scroll.getBoundingClientRect();
      const head = of.closest('th') ? 0 : scroll.querySelector('thead')?.getBoundingClientRect().height ?? 0;
      [left, top] = [Math.max(left, frame.left), Math.max(top, frame.top + (of.closest('th') ? 0 : head))];
      [right, bottom] = [Math.min(right, frame.right), Math.min(bottom, frame.bottom)];
    } else if (right > innerWidth + 1 || left < -1) {
      wrong.push(`is outside of the page: ${text.data.trim().slice(0, 40)}`);
    }
    if (right - left > 1 && bottom - top > 1) boxes.push({ left, top, right, bottom, text: text.data.trim().slice(0, 40), of });
  }
}
boxes.sort((a, b) => a.top - b.top);
boxes.forEach((a, i) => {
  for (let k = i + 1; k < boxes.length && boxes[k].top < a.bottom - 3; k += 1) {
    const b = boxes[k];
    if (a.of === b.of) continue;
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 2 && down > 3) wrong.push(`lie over each other: ${a.text} | ${b.text}`);
  }
});
for (const at of document.querySelectorAll('section, header, p, dt, dd, h1, h2, td, th, button, li, .told, .controls')) {
  if (!at.checkVisibility() || at.closest('.skip, .unseen')) continue;
  if (at.scrollWidth > at.clientWidth + 1 && at.clientWidth > 0 && getComputedStyle(at).overflowX !== 'auto') {
    wrong.push(`is cut or runs over: ${at.tagName} ${at.id} ${at.textContent.trim().slice(0, 40)}`);
  }
}
for (const canvas of document.querySelectorAll('canvas')) {
  if (canvas.checkVisibility() && canvas.clientWidth < 150) wrong.push(`is too narrow: ${canvas.id}`);
}
return [boxes.length, wrong.slice(0, 10)];
";

/// The least contrast of a text with its background, and that text.
pub(crate) const CONTRAST: &str = r"
const parts = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
const light = ([r, g, b]) => {
  const of = (v) => { const s = v / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * of(r) + 0.7152 * of(g) + 0.0722 * of(b);
};
const behind = (at) => {
  for (let up = at; up; up = up.parentElement) {
    const colour = parts(getComputedStyle(up).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
let least = [Infinity, '', 0];
let count = 0;
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const text = walk.currentNode, of = text.parentElement;
  if (!text.data.trim() || of.closest('script, noscript, option, datalist') || !of.checkVisibility()) continue;
  const [a, b] = [light(parts(getComputedStyle(of).color)), light(behind(of))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  count += 1;
  if (ratio < least[0]) least = [ratio, text.data.trim().slice(0, 40), 0];
}
return [least[0], least[1], count, getComputedStyle(document.body).backgroundColor];
";

/// Starts to record frames and long tasks.
pub(crate) const WATCH: &str = r"
window.seen = { frames: 0, longest: 0, tasks: 0, longestTask: 0 };
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) {
    seen.tasks += 1;
    seen.longestTask = Math.max(seen.longestTask, task.duration);
  }
}).observe({ entryTypes: ['longtask'] });
let before = performance.now();
const frame = (now) => {
  seen.frames += 1;
  seen.longest = Math.max(seen.longest, now - before);
  before = now;
  requestAnimationFrame(frame);
};
requestAnimationFrame(frame);
";

/// The name of the focused element, and whether the focus is visible.
pub(crate) const FOCUS: &str = r"
const at = document.activeElement, style = getComputedStyle(at);
const name = at.id || at.getAttribute('aria-labelledby') || at.className || at.tagName;
return [name, style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1];
";
