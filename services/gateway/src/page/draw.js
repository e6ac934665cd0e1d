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

/** A name in at most `room` pixels: its end, which distinguishes nodes. */
function cut(pen, name, room) {
  if (pen.measureText(name).width <= room) return name;
  let from = 1;
  while (from < name.length && pen.measureText(`…${name.slice(from)}`).width > room) from += 1;
  return `…${name.slice(from)}`;
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
  const { pen, width, height } = sheet(canvas);
  if (cells.length === 0) return;
  let side = Math.max(1, Math.min(14, Math.floor(Math.sqrt((width * height) / cells.length))));
  while (side > 1 && Math.ceil(cells.length / Math.floor(width / side)) * side > height) side -= 1;
  const across = Math.max(1, Math.floor(width / side));
  const gap = side > 4 ? 1 : 0;
  const of = palette();
  cells.forEach((code, i) => {
    const fill = of(code);
    if (!fill) return;
    pen.fillStyle = fill;
    pen.fillRect((i % across) * side, Math.floor(i / across) * side, side - gap, side - gap);
  });
}

/** The layout of the drawn history, for finding the node under the pointer. */
export function ganttLayout(canvas, rows) {
  const height = canvas.clientHeight - BOTTOM;
  return { left: LEFT, height, row: height / Math.max(rows, 1) };
}

/** One line for each node. */
function drawRows(pen, { rows, until }, from, x, row) {
  const of = palette();
  const gap = row > 5 ? 1 : 0;
  rows.forEach(({ turns }, i) => {
    turns.forEach(([at, code], k) => {
      const end = k + 1 < turns.length ? turns[k + 1][0] : until;
      const fill = of(code);
      if (!fill || end <= from) return;
      const left = x(at);
      pen.fillStyle = fill;
      pen.fillRect(left, i * row, Math.max(x(end) - left, 0.5), row - gap);
    });
  });
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

let sums = new Float32Array(0);

/**
 * Several nodes for each line: each point has the mean colour of its nodes. A turn adds its colour
 * at its beginning and subtracts it at its end; the prefix sums from left to right are the drawing.
 * So the time grows with the number of turns plus the number of points.
 */
function drawDense(pen, { rows, until }, from, width, height) {
  if (width < 1 || height < 1) return;
  const line = (width + 1) * 4, known = new Map();
  if (sums.length < line * height) sums = new Float32Array(line * height);
  sums.fill(0);
  const scale = width / (until - from), lines = new Float32Array(height);
  rows.forEach(({ turns }, i) => {
    const y = Math.floor((i * height) / rows.length);
    lines[y] += 1;
    for (let k = 0; k < turns.length; k += 1) {
      const [at, code] = turns[k];
      const end = k + 1 < turns.length ? turns[k + 1][0] : until;
      if (code === AWAY || end <= from) continue;
      if (!known.has(code)) known.set(code, mixed(colour(code)));
      const [red, green, blue] = known.get(code);
      const left = y * line + Math.round(Math.max(0, at - from) * scale) * 4;
      const right = y * line + Math.round((end - from) * scale) * 4;
      sums[left] += red; sums[left + 1] += green; sums[left + 2] += blue; sums[left + 3] += 1;
      sums[right] -= red; sums[right + 1] -= green; sums[right + 2] -= blue; sums[right + 3] -= 1;
    }
  });
  const image = new ImageData(width, height), { data } = image;
  for (let y = 0; y < height; y += 1) {
    let red = 0, green = 0, blue = 0, there = 0;
    for (let x = 0; x < width; x += 1) {
      const at = y * line + x * 4, to = (y * width + x) * 4;
      red += sums[at]; green += sums[at + 1]; blue += sums[at + 2]; there += sums[at + 3];
      if (there < 0.5) continue;
      data[to] = red / there; data[to + 1] = green / there; data[to + 2] = blue / there;
      data[to + 3] = (255 * there) / lines[y];
    }
  }
  const sheet = new OffscreenCanvas(width, height);
  sheet.getContext("2d").putImageData(image, 0, 0);
  pen.drawImage(sheet, LEFT, 0);
}

/** A line above each leaf but the first, and its name where there is room for it. */
function drawLeaves(pen, leaves, row, width) {
  let first = 0;
  pen.textAlign = "right";
  pen.textBaseline = "top";
  for (const [name, rows] of leaves) {
    const top = first * row;
    if (first > 0 && rows * row >= 3) {
      pen.fillStyle = tone("--ink");
      pen.fillRect(LEFT, top - 0.5, width - LEFT, 1);
    }
    if (name && rows * row >= 14) {
      const text = cut(pen, name, (width - LEFT) / 4);
      const wide = pen.measureText(text).width + 6;
      pen.fillStyle = tone("--card");
      pen.fillRect(width - wide, top + 1, wide, 12);
      pen.fillStyle = tone("--soft");
      pen.fillText(text, width - 3, top + 2);
    }
    first += rows;
  }
}

/** The trainer of each node from `from` to `past.until`, one line for each node; `marked` is the index of one. */
export function drawGantt(canvas, past, from, marked) {
  const { pen, width, height } = sheet(canvas);
  const { rows, until } = past;
  if (rows.length === 0 || until <= from) return;
  const row = (height - BOTTOM) / rows.length;
  const x = (at) => LEFT + ((Math.max(at, from) - from) / (until - from)) * (width - LEFT);
  if (row < 1) drawDense(pen, past, from, Math.floor(width - LEFT), Math.floor(height - BOTTOM));
  else drawRows(pen, past, from, x, row);
  drawLeaves(pen, past.leaves, row, width);
  if (marked !== null && rows[marked]) {
    pen.strokeStyle = tone("--ink");
    pen.lineWidth = 1.5;
    pen.strokeRect(LEFT, marked * row - 1, width - LEFT - 1, Math.max(row, 3) + 1);
    pen.lineWidth = 1;
  }
  pen.fillStyle = tone("--soft");
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  const every = Math.max(1, Math.ceil(14 / row)), shared = domain(rows).length;
  for (let i = 0; i < rows.length; i += every) {
    pen.fillText(cut(pen, rows[i].node.slice(0, rows[i].node.length - shared), LEFT - 8), LEFT - 5, i * row + Math.max(row / 2, 6));
  }
  label(pen, height, [0, 1, 2, 3, 4].map((part) => {
    const at = from + ((until - from) * part) / 4;
    return { x: x(at), text: clock(at, until - from) + (part === 0 ? " UTC" : ""), align: ["left", "center", "center", "center", "right"][part] };
  }));
}
