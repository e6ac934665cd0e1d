// Drawing on canvases. These are functions of data, and none asks a server.

export const AWAY = 0, IDLE = 1, UNUSABLE = 2, FIRST = 3;

/** A small line of values over time, from the least to the greatest. */
export function spark(values) {
  const [width, height] = [72, 16], namespace = "http://www.w3.org/2000/svg";
  const least = Math.min(...values), range = Math.max(...values) - least;
  const y = (value) => range > 0 ? height - 1 - (height - 2) * (value - least) / range : height / 2;
  const svg = document.createElementNS(namespace, "svg"), line = document.createElementNS(namespace, "polyline");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-hidden", "true");
  line.setAttribute("points", values.map((value, at) => `${(width * at / (values.length - 1)).toFixed(1)},${y(value).toFixed(1)}`).join(" "));
  svg.append(line);
  return svg;
}

/** The value of a colour variable of the style sheet. */
export const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The colour of a node's state. The hues of trainers differ by the golden angle. */
export function colour(code) {
  if (code === AWAY) return null;
  if (code === IDLE) return tone("--idle");
  if (code === UNUSABLE) return tone("--unusable");
  const hue = ((code - FIRST) * 137.508 + 205) % 360;
  const ring = Math.floor((code - FIRST) / 12) % 3;
  return `hsl(${hue.toFixed(0)} ${65 - 12 * ring}% ${48 + 7 * ring}%)`;
}

/** A colour for each code, computed once per drawing. */
function palette() {
  const known = new Map();
  return (code) => {
    if (!known.has(code)) known.set(code, colour(code));
    return known.get(code);
  };
}

/** The canvas, cleared, as sharp as the screen, with its size in CSS pixels. */
function sheet(canvas) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  return { pen, width, height };
}

const LEFT = 62, BOTTOM = 18, TOP = 6;

/** A round number at or above `most`, for the end of an axis. */
export function roundUp(most) {
  if (most <= 4) return 4;
  const step = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 5, 10].map((n) => n * step).find((n) => n >= most);
}

function frame(pen, width, height, top, ticks) {
  pen.strokeStyle = tone("--line");
  pen.fillStyle = tone("--soft");
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (const part of [0, 0.5, 1]) {
    const y = TOP + (1 - part) * (height - TOP - BOTTOM);
    pen.beginPath();
    pen.moveTo(LEFT, y);
    pen.lineTo(width, y);
    pen.stroke();
    pen.fillText((top * part).toLocaleString("en"), LEFT - 5, y);
  }
  label(pen, height, ticks);
}

/** Labels below a drawing, from left to right. Labels that would overlap are left out. */
function label(pen, height, ticks) {
  pen.fillStyle = tone("--soft");
  pen.textBaseline = "alphabetic";
  let free = 0;
  for (const { x, text, align = "center" } of ticks) {
    const width = pen.measureText(text).width;
    const left = x - { left: 0, center: width / 2, right: width }[align];
    if (left < free) continue;
    pen.textAlign = align;
    pen.fillText(text, x, height - 4);
    free = left + width + 6;
  }
}

/** The part of the names behind the first dot that all nodes share, which distinguishes none of them. */
function domain(rows) {
  const [, shared] = rows[0].node.match(/^[^.]+(\..*)$/) ?? [null, ""];
  return rows.every(({ node }) => node.endsWith(shared)) ? shared : "";
}

/** A name in at most `room` pixels: its head, which names the rack, and its end, which names the node. */
function cut(pen, name, room) {
  if (pen.measureText(name).width <= room) return name;
  for (let kept = name.length - 1; kept > 2; kept -= 1) {
    const head = Math.ceil(kept / 2);
    const text = `${name.slice(0, head)}…${name.slice(name.length - (kept - head))}`;
    if (pen.measureText(text).width <= room) return text;
  }
  return name.slice(0, 2);
}

/**
 * Shows as many words of the title of each element as it has room for in one line. All are changed before any is
 * measured, since the page is laid out again after each change.
 */
export function fit(elements) {
  const show = ({ element, words }, kept) => {
    element.textContent = kept < words.length ? `${words.slice(0, kept).join(" ")} …` : element.title;
  };
  const has = ({ element }) => element.scrollWidth <= element.clientWidth;
  const all = Array.from(elements, (element) => ({ element, words: element.title.split(" "), fits: 0 }));
  for (const one of all) show(one, one.words.length);
  const long = all.filter((one) => !has(one)), middle = ({ fits, fails }) => (fits + fails) >> 1;
  for (const one of long) one.fails = one.words.length;
  for (let open = long; (open = open.filter(({ fits, fails }) => fails - fits > 1)).length > 0;) {
    for (const one of open) show(one, middle(one));
    const room = open.map(has);
    open.forEach((one, i) => { one[room[i] ? "fits" : "fails"] = middle(one); });
  }
  for (const one of long) show(one, Math.max(one.fits, 1));
}

function area(pen, points, base, fill) {
  if (points.length === 0) return;
  pen.fillStyle = fill;
  pen.beginPath();
  pen.moveTo(points[0][0], base);
  for (const [x, y] of points) pen.lineTo(x, y);
  pen.lineTo(points[points.length - 1][0], base);
  pen.fill();
}

/** The time of day, to the second where an axis spans few minutes. */
const clock = (ms, span) => new Date(ms).toISOString().slice(11, span < 600_000 ? 19 : 16);

/** Idle and training nodes over time; `readings` are [moment, idle, training]. */
export function drawPool(canvas, readings) {
  const { pen, width, height } = sheet(canvas);
  if (readings.length < 2) return;
  const [first, last] = [readings[0][0], readings[readings.length - 1][0]];
  const top = roundUp(readings.reduce((most, r) => Math.max(most, r[1], r[2]), 1));
  const x = (at) => LEFT + ((at - first) / Math.max(last - first, 1)) * (width - LEFT);
  const y = (count) => TOP + (1 - count / top) * (height - TOP - BOTTOM);
  // Steps: a reading holds until the next one.
  const steps = (of) => readings.flatMap((r, i) =>
    i === 0 ? [[x(r[0]), y(r[of])]] : [[x(r[0]), y(readings[i - 1][of])], [x(r[0]), y(r[of])]]);
  area(pen, steps(1), y(0), tone("--idle"));
  area(pen, steps(2), y(0), tone("--training"));
  frame(pen, width, height, top, [
    { x: LEFT, text: `${clock(first, last - first)} UTC`, align: "left" }, { x: width, text: clock(last, last - first), align: "right" }]);
}

/** The expected number of open holes; `open` are [seconds ahead, nodes]. */
export function drawForecast(canvas, open) {
  const { pen, width, height } = sheet(canvas);
  if (open.length < 2) return;
  const end = open[open.length - 1][0];
  const top = roundUp(open[0][1]);
  // The near future matters most, so the axis is the square root of time.
  const x = (s) => LEFT + Math.sqrt(s / end) * (width - LEFT - 14);
  const y = (count) => TOP + (1 - count / top) * (height - TOP - BOTTOM);
  area(pen, open.map(([s, count]) => [x(s), y(count)]), y(0), tone("--training"));
  frame(pen, width, height, top, [
    { x: LEFT, text: "now", align: "left" }, ...[60, 300, 900, 3600].map((s) => ({ x: x(s), text: `${s / 60} min`, align: s === end ? "right" : "center" }))]);
}

/** The present state of each node, one cell each, in rows from left to right. */
export function drawCells(canvas, cells) {
  const wide = canvas.clientWidth, most = 60;
  let side = Math.max(1, Math.min(14, Math.floor(Math.sqrt((wide * most) / Math.max(cells.length, 1)))));
  const lines = () => Math.ceil(cells.length / Math.max(1, Math.floor(wide / side)));
  while (side > 1 && lines() * side > most) side -= 1;
  canvas.style.height = `${Math.min(lines() * side, most)}px`;
  const { pen } = sheet(canvas);
  if (cells.length === 0) return;
  const across = Math.max(1, Math.floor(wide / side)), gap = side > 4 ? 1 : 0, of = palette();
  cells.forEach((code, i) => {
    const fill = of(code);
    if (!fill) return;
    pen.fillStyle = fill;
    pen.fillRect((i % across) * side, Math.floor(i / across) * side, side - gap, side - gap);
  });
}

/** The heights of a line: of one node at most and at least, and of one rack at least. And that of all lines. */
const NODE = 20, LEAST = 3, RACK = 12, ALL = 400;
/** Above so many nodes of which no name tells the rack, a rack is so many neighbours. */
const NEIGHBOURS = 64;

/** The rack of a name: all but its last number. */
const rackOf = (node, shared) => node.slice(0, node.length - shared).replace(/\d+$/, "");

/** The nodes by rack: by leaf where leaves are known, else by name. Each: its name, its first row and its number of rows. */
function racks({ rows, leaves }) {
  const shared = domain(rows).length;
  let found = [], first = 0;
  for (const [name, count] of leaves) {
    found.push({ name, first, count });
    first += count;
  }
  if (found.length < 2) {
    found = [];
    rows.forEach(({ node }, i) => {
      const name = rackOf(node, shared), last = found[found.length - 1];
      if (last?.name === name) last.count += 1;
      else found.push({ name, first: i, count: 1 });
    });
  }
  return found.flatMap((rack) => rack.name && found.length > 1 ? [rack] : neighbours(rack, rows, shared));
}

/** A rack without a name of its own is named by its first node. */
function neighbours({ first, count }, rows, shared) {
  const parts = [];
  for (let at = first; at < first + count; at += NEIGHBOURS) {
    const { node } = rows[at];
    parts.push({ name: node.slice(0, node.length - shared), first: at, count: Math.min(NEIGHBOURS, first + count - at) });
  }
  return parts;
}

let laid = { past: null, rows: null, all: [] };

/** The lines of the drawn history: one for each node while there is room, else one for each rack, or several racks. */
function bands(past) {
  if (laid.past === past && laid.rows === past.rows.length) return laid.all;
  const { rows } = past;
  let all;
  if (rows.length * LEAST <= ALL) {
    const height = Math.min(NODE, ALL / Math.max(rows.length, 1)), shared = rows.length ? domain(rows).length : 0;
    all = rows.map(({ node }, i) => ({ name: node.slice(0, node.length - shared), first: i, count: 1, top: i * height, height }));
  } else {
    const each = racks(past), several = Math.ceil((each.length * RACK) / ALL), joined = [];
    for (let i = 0; i < each.length; i += several) {
      const part = each.slice(i, i + several);
      joined.push({ name: part[0].name, first: part[0].first, count: part.reduce((sum, rack) => sum + rack.count, 0) });
    }
    const height = Math.min(2 * RACK, Math.floor(ALL / joined.length));
    all = joined.map((band, i) => ({ ...band, top: i * height, height }));
  }
  laid = { past, rows: rows.length, all };
  return all;
}

/** The row under the pointer; nothing below the last line. */
export function placeAt(canvas, past, y) {
  const band = bands(past).find(({ top, height }) => y >= top && y < top + height);
  return band ? band.first + Math.floor(((y - band.top) / band.height) * band.count) : null;
}

/** One line for each node. */
function drawRows(pen, { rows, until }, all, from, x) {
  const of = palette();
  for (const { first, top, height } of all) {
    const { turns } = rows[first], gap = height > 5 ? 1 : 0;
    turns.forEach(([at, code], k) => {
      const end = k + 1 < turns.length ? turns[k + 1][0] : until;
      const fill = of(code);
      if (!fill || end <= from) return;
      const left = x(at);
      pen.fillStyle = fill;
      pen.fillRect(left, top, Math.max(x(end) - left, 0.5), height - gap);
    });
  }
}

const mixtures = new Map();

/** Red, green and blue of a CSS colour. */
function mixed(fill) {
  if (!mixtures.has(fill)) mixtures.set(fill, mix(fill));
  return mixtures.get(fill);
}

function mix(fill) {
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  pen.fillStyle = fill;
  pen.fillRect(0, 0, 1, 1);
  return pen.getImageData(0, 0, 1, 1).data;
}

/**
 * One line for each rack: at each moment it is filled from below as far as its nodes are holes, by trainer.
 * A turn is added at its beginning and subtracted at its end, and sums from left to right are the drawing.
 * So the time grows with the number of turns plus the number of points.
 */
function drawRacks(pen, { rows, until }, all, from, left, width) {
  if (width < 1) return;
  const scale = width / (until - from), tallest = all[all.length - 1].top + all[0].height;
  const image = new ImageData(width, tallest), { data } = image;
  for (const { first, count, top, height } of all) {
    const changes = new Map();
    for (const { turns } of rows.slice(first, first + count)) {
      for (let k = 0; k < turns.length; k += 1) {
        const [at, code] = turns[k];
        const end = k + 1 < turns.length ? turns[k + 1][0] : until;
        if (code === AWAY || end <= from) continue;
        if (!changes.has(code)) changes.set(code, new Float32Array(width + 1));
        const sums = changes.get(code);
        sums[Math.round(Math.max(0, at - from) * scale)] += 1;
        sums[Math.round((end - from) * scale)] -= 1;
      }
    }
    // Trainers lie below idle nodes.
    const codes = [...changes.keys()].sort((a, b) => b - a), tall = height - 1;
    const sums = codes.map((code) => changes.get(code)), now = codes.map(() => 0), tones = codes.map((code) => mixed(colour(code)));
    for (let x = 0; x < width; x += 1) {
      let filled = 0, nodes = 0;
      for (let k = 0; k < codes.length; k += 1) {
        now[k] += sums[k][x];
        nodes += now[k];
        const upto = Math.round((tall * nodes) / count);
        for (; filled < upto; filled += 1) {
          const to = ((top + tall - 1 - filled) * width + x) * 4, [red, green, blue] = tones[k];
          data[to] = red; data[to + 1] = green; data[to + 2] = blue; data[to + 3] = 255;
        }
      }
    }
  }
  const sheet = new OffscreenCanvas(width, tallest);
  sheet.getContext("2d").putImageData(image, 0, 0);
  pen.drawImage(sheet, left, 0);
}

/** A line above each leaf but the first, and its name where there is room for it. */
function drawLeaves(pen, leaves, row, left, width) {
  let first = 0;
  pen.textAlign = "right";
  pen.textBaseline = "top";
  for (const [name, rows] of leaves) {
    const top = first * row;
    if (first > 0 && rows * row >= 3) {
      pen.fillStyle = tone("--ink");
      pen.fillRect(left, top - 0.5, width - left, 1);
    }
    if (name && rows * row >= 14) {
      const text = cut(pen, name, (width - left) / 4);
      const wide = pen.measureText(text).width + 6;
      pen.fillStyle = tone("--card");
      pen.fillRect(width - wide, top + 1, wide, 12);
      pen.fillStyle = tone("--soft");
      pen.fillText(text, width - 3, top + 2);
    }
    first += rows;
  }
}

/**
 * The trainer of each node from `from` to `past.until`; `marked` is the row of one. Returns whether each node has a
 * line of its own.
 */
export function drawGantt(canvas, past, from, marked) {
  const { rows, until } = past, all = bands(past), last = all[all.length - 1];
  canvas.style.height = `${(last ? last.top + last.height : 0) + BOTTOM + 4}px`;
  const { pen, width, height } = sheet(canvas);
  const single = all.length === rows.length;
  if (rows.length === 0 || until <= from) return single;
  // Names have a fifth of the width at most.
  const names = all.map(({ name }) => pen.measureText(name).width);
  const left = Math.ceil(Math.min(Math.max(40, ...names) + 10, Math.max(LEFT, width / 5)));
  const x = (at) => left + ((Math.max(at, from) - from) / (until - from)) * (width - left);
  if (single) drawRows(pen, past, all, from, x);
  else drawRacks(pen, past, all, from, left, Math.floor(width - left));
  if (single) drawLeaves(pen, past.leaves, all[0].height, left, width);
  const of = marked === null ? null : all.find(({ first, count }) => marked >= first && marked < first + count);
  if (of) {
    const row = of.height / of.count;
    pen.strokeStyle = tone("--ink");
    pen.lineWidth = 1.5;
    pen.strokeRect(left, of.top + (marked - of.first) * row - 1, width - left - 1, Math.max(row, 3) + 1);
    pen.lineWidth = 1;
  }
  pen.fillStyle = tone("--soft");
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  let free = 0;
  for (const { name, top, height } of all) {
    const middle = top + Math.max(height / 2, 6);
    if (middle - 6 < free) continue;
    pen.fillText(cut(pen, name, left - 8), left - 5, middle);
    free = middle + 7;
  }
  label(pen, height, [0, 1, 2, 3, 4].map((part) => {
    const at = from + ((until - from) * part) / 4;
    return { x: x(at), text: clock(at, until - from) + (part === 0 ? " UTC" : ""), align: ["left", "center", "center", "center", "right"][part] };
  }));
  return single;
}
