// The operator's page: shows the events of /live. It changes nothing anywhere.
import { AWAY, IDLE, UNUSABLE, colour, drawCells, drawForecast, drawGantt, drawPool, fit, placeAt, spark, tone } from "./draw.js";

const $ = (id) => document.getElementById(id);
/** The history is extended here. It is fetched again after this time, or when nodes have joined or left. */
const PAST_EVERY_MS = 300_000, NAMES_EVERY_MS = 10_000;
const AGAIN_MS = 5000;

let names = [], cells = [], readings = [], snapshot = null, past = null, marked = null;

const number = (value, digits = 0) =>
  value.toLocaleString("en", { minimumFractionDigits: 0, maximumFractionDigits: digits });

/** A count in few characters: 12.3 M. */
function short(value) {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (value >= size) return `${number(value / size, 1)} ${unit}`;
  }
  return number(value, value < 10 ? 1 : 0);
}

/** A length of time as text, from seconds. */
function length(seconds) {
  if (seconds < 1) return `${number(seconds * 1000, seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 120) return `${number(seconds, seconds < 10 ? 1 : 0)} s`;
  if (seconds < 7200) return `${number(seconds / 60)} min`;
  return `${number(seconds / 3600, 1)} h`;
}

const moment = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ");

function setText(id, text) {
  const at = $(id);
  if (at.textContent !== text) at.textContent = text;
}

const percent = (share) => `${number(100 * share, 1)} %`;
/** A share, or nothing where there is nothing below it. */
const share = (value) => value === null ? "-" : percent(value);

/** A question with its answer: a word with a sign, a sentence, and what it rests on. */
function answer(id, { state, word, text, items }) {
  const at = $(id), shown = at.querySelector(".word");
  shown.className = `word ${state}`;
  shown.textContent = word;
  at.querySelector(".text").textContent = text;
  at.querySelector(".items tbody")?.replaceChildren(...items.map((item) => {
    const tr = document.createElement("tr"), mark = cell(""), word = document.createElement("span");
    word.className = `word ${item.state}`;
    word.textContent = { good: "well", look: "look", bad: "wrong", unknown: "not known" }[item.state];
    mark.append(word);
    tr.append(mark, cell(item.what), cell(item.text, "note"));
    return tr;
  }));
}

/** A ratio with next to nothing below it is none: more cannot be lost than was done. */
function figures(p) {
  if (p.ages.pool === null) return;
  setText("f-pool", number(p.pool));
  setText("f-pool-note", p.unusable ? `${number(p.unusable)} of them not usable now, ` : "");
  setText("f-training", number(p.training));
  if (!p.totals) return;
  const { harvested_node_h: got, idle_node_h: idle, efficiency } = p.totals;
  const { lost_to_rescaling: rescaling, lost_to_preemption: preemption, lost_to_restarts: restarts } = p.totals;
  // A share of which more was lost than done is none (`null`).
  const shares = [rescaling, preemption, restarts], lost = shares.reduce((sum, share) => sum + share, 0);
  const isShare = p.totals.samples > 0 && shares.every((share) => share !== null) && lost <= 1;
  setText("f-used", share(p.totals.idle_share_used));
  setText("f-used-note", idle > 0 ? `${short(got)} of ${short(idle)} idle node-hours` : "no node was idle yet");
  setText("f-efficiency", share(efficiency));
  setText("f-efficiency-note", efficiency === null ? p.totals.efficiency_unknown : "of the work on as many dedicated nodes");
  setText("f-lost", isShare ? percent(lost) : "-");
  setText("f-lost-note", isShare ? `rescaling ${percent(rescaling)}, preemption ${percent(preemption)}${restarts ? `, restarts ${percent(restarts)}` : ""}`
    : p.totals.samples > 0 ? "more was lost than is done so far" : "no sample is done yet");
  setText("f-done", number(p.totals.done));
  setText("f-done-note", `${number(p.totals.active)} admitted, ${number(p.totals.queued)} queued`);
}

function cell(text, kind) {
  const td = document.createElement("td");
  if (kind) td.className = kind;
  td.textContent = text;
  return td;
}

function trainerRow(t) {
  const tr = document.createElement("tr");
  const name = cell("", "name");
  const swatch = document.createElement("span");
  swatch.className = "swatch";
  if (t.code !== null) swatch.style.background = colour(t.code);
  name.append(swatch, t.name);
  if (t.owner) {
    const owner = document.createElement("span");
    owner.className = "owner";
    owner.textContent = ` ${t.owner}`;
    name.append(owner);
  }
  const done = cell("", "share");
  if (t.of) {
    const bar = document.createElement("span"), fill = document.createElement("i");
    const share = Math.min(1, t.samples / t.of);
    bar.className = "bar";
    fill.style.width = `${100 * share}%`;
    bar.append(fill);
    done.append(bar, percent(share));
  } else {
    done.textContent = `${short(t.samples)} samples`;
  }
  if (t.loss !== null) done.append(`, loss ${t.loss.toPrecision(3)}`);
  const why = cell("", "why");
  why.append(details(t));
  tr.append(name, cell(t.state, t.state === "retrying" ? "state trouble" : "state"), cell(`${t.nodes} of ${t.min}-${t.max}`, "nodes"),
    cell(t.nodes ? short(t.rate) : "", "rate n"), done, why);
  return tr;
}

/** Trainers whose details are open. */
const opened = new Set();

/** What only someone who asks wants to know of a trainer: the planner's words, and what its steps cost and teach. */
function details(t) {
  const all = document.createElement("details"), summary = document.createElement("summary");
  summary.className = "reason";
  summary.title = t.reason;
  all.open = opened.has(t.name);
  all.addEventListener("toggle", () => all.open ? opened.add(t.name) : opened.delete(t.name));
  const line = (text) => Object.assign(document.createElement("p"), { textContent: text });
  // The planner's words begin with the name, which is in the first column.
  const words = [(t.why ?? "").replace(`${t.name}: `, ""), ...t.notes, `preempted ${t.preemptions} times, rescaled ${t.rescales} times`];
  all.append(summary, ...words.filter(Boolean).map(line));
  if (t.lines.length) {
    const lines = document.createElement("div");
    lines.className = "note sparks";
    lines.append(...t.lines.map(({ name, values }) => {
      const span = document.createElement("span");
      span.append(spark(values), `${name} ${short(values[values.length - 1])}`);
      span.title = `${name}: from ${short(Math.min(...values))} to ${short(Math.max(...values))} since the page's server saw it`;
      return span;
    }));
    all.append(lines);
  }
  return all;
}

/** Reasons are one line: as many words as there is room for. The pointer shows all of it. */
function fitReasons() {
  fit(document.querySelectorAll("#rows .reason"));
}

/** The operator's controls as sentences; none if all nodes may be used. */
function wanted(c) {
  if (!c) return [];
  const lines = [];
  if (c.pause) {
    const { limit, by, reason, since, until } = c.pause;
    lines.push(`Paused by ${by} since ${moment(since)} UTC${until ? ` until ${moment(until)} UTC` : ""}: ${limit}${reason ? ` (${reason})` : ""}.`);
  }
  if (c.drained) {
    const some = c.named.map(([node, reason]) => reason ? `${node} (${reason})` : node).join(", ");
    lines.push(`Drained: ${some}${c.drained > c.named.length ? ` and ${number(c.drained - c.named.length)} more` : ""}.`);
  }
  if (c.max_nodes !== null) lines.push(`At most ${number(c.max_nodes)} nodes are used.`);
  if (c.keep_idle !== null) lines.push(`${number(c.keep_idle)} idle nodes stay free.`);
  if (c.only.length) lines.push(`Only ${c.only.join(", ")} may be used.`);
  if (c.avoid.length) lines.push(`Never used: ${c.avoid.join(", ")}.`);
  return lines.concat(c.windows.map((window) => `Window ${window}.`));
}

function controls(c) {
  const lines = wanted(c);
  $("controls").hidden = lines.length === 0;
  setText("controls", lines.join("\n"));
}

/** The state of a service as text, for readers who do not see colours. */
const STATES = { active: "active", failing: "a check fails, active", silent: "silent", gone: "resigned" };

function services(p) {
  $("services").replaceChildren(...p.services.map((s) => {
    const tr = document.createElement("tr"), name = cell("", "name"), dot = document.createElement("span");
    dot.className = `dot ${s.state}`;
    name.append(dot, s.name);
    const state = s.state === "silent" ? `${STATES.silent} for ${length(s.silent_s)}` : `${STATES[s.state]} since ${moment(s.since)} UTC`;
    tr.append(name, cell(state), cell(s.seat, "note"));
    return tr;
  }));
  $("no-services").hidden = p.services.length > 0;
}

const shown = {};

/** Whether a part of the page has new data. An unchanged part keeps its place and selection. */
function isNew(key, value) {
  const text = JSON.stringify(value);
  if (shown[key] === text) return false;
  shown[key] = text;
  return true;
}

function lists(p) {
  if (isNew("services", p.services.map((s) => s.state === "silent" ? s : { ...s, silent_s: 0 }))) services(p);
  if (isNew("trainers", p.trainers)) {
    $("rows").replaceChildren(...p.trainers.map(trainerRow));
    fitReasons();
  }
  $("no-trainers").hidden = p.trainers.length > 0;
  if (isNew("harm", p.harm.newest)) givenBack(p);
  const { count, median_s: median } = p.harm;
  setText("harm-note", count ? `Pilots measure it themselves: ${length(median)} at the median of the last ${number(count)}.` : "");
  for (const [id, of] of [["a-harm", p.answers.harm], ["a-faults", p.answers.faults], ["a-gain", p.answers.gain]]) {
    if (isNew(id, of)) answer(id, of);
  }
  $("of-kinds").hidden = p.kinds.length === 0;
  if (isNew("kinds", p.kinds)) kinds(p);
  if (isNew("events", p.events)) events(p);
  const plan = p.plan;
  setText("plan-note", plan ? `Number ${plan.generation}, for ${moment(plan.at)} UTC, by ${plan.solver}${plan.proven ? ", proven optimal" : ""}, in ${length(plan.latency_s)}: ${number(plan.used)} of ${number(plan.holes)} holes in use.` : "No plan yet.");
  if (isNew("plan", plan?.lines)) planLines(plan ? plan.lines : []);
}

function givenBack(p) {
  $("harm").replaceChildren(...p.harm.newest.map(([at, node, took]) => {
    const tr = document.createElement("tr");
    tr.append(cell(moment(at), "when"), cell(node), cell(length(took), "n"));
    return tr;
  }));
}

function kinds(p) {
  const wait = (seconds) => cell(seconds === null ? "-" : length(seconds), "n");
  $("kinds").replaceChildren(...p.kinds.map((k) => {
    const tr = document.createElement("tr");
    tr.append(
      cell(k.kind, "name"), cell(short(k.idle_node_h), "n"), cell(short(k.harvested_node_h), "n"),
      cell(share(k.idle_share_used), "n"), cell(number(k.given_back), "n"),
      wait(k.harm_mean_s), wait(k.harm_longest_s),
    );
    return tr;
  }));
}

function events(p) {
  $("no-events").hidden = p.events.length > 0;
  $("events").replaceChildren(...p.events.map((e) => {
    const tr = document.createElement("tr");
    tr.append(cell(moment(e.at), "when"), cell(e.what), cell(e.note ? `${e.whom}: ${e.note}` : e.whom, "whom"));
    return tr;
  }));
}

function planLines(lines) {
  $("plan-lines").replaceChildren(...lines.map((line) => {
    const li = document.createElement("li");
    li.textContent = line;
    return li;
  }));
}

function legend() {
  const [many, first] = [snapshot.trainers.length, snapshot.trainers.slice(0, 8).map((t) => [t.code, t.name])];
  if (!isNew("legend", [many, first, tone("--idle")])) return;
  const entries = [[IDLE, "idle"], [UNUSABLE, "not usable now"], ...first.filter(([code]) => code !== null)];
  $("legend").replaceChildren(...entries.map(([code, text]) => {
    const span = document.createElement("span"), swatch = document.createElement("i");
    swatch.className = "swatch";
    swatch.style.background = colour(code);
    span.append(swatch, text);
    return span;
  }), many > 8 ? `and ${many - 8} more` : "");
}

function drawPast() {
  if (!past) return;
  const began = performance.now();
  for (const id of ["cells", "gantt"]) $(id).hidden = past.rows.length === 0;
  if (past.rows.length === 0) {
    setText("gantt-note", "No node has been idle yet.");
    return;
  }
  const span = Number($("span").value) * 1000;
  const from = span ? Math.max(past.since, past.until - span) : past.since;
  const single = drawGantt($("gantt"), past, from, marked);
  const lines = single ? "blank: with the main scheduler" : "a line for each rack, filled as far as its nodes are idle or train";
  setText("gantt-note", `${number(past.rows.length)} nodes that were idle between ${moment(from)} and ${moment(past.until)} UTC; ${lines}.`);
  drawn = { at: performance.now(), took: performance.now() - began };
}

/** When the history was drawn last, and how long that took. Drawing takes at most 2 % of the time. */
let drawn = { at: 0, took: 0 };
const pastIsDue = () => performance.now() - drawn.at > Math.max(1000, 50 * drawn.took);

function draw() {
  if (!snapshot) return;
  $("pool").hidden = readings.length < 2;
  $("no-pool").hidden = readings.length >= 2;
  $("forecast").hidden = !snapshot.forecast;
  drawPool($("pool"), readings);
  drawForecast($("forecast"), snapshot.forecast?.open ?? []);
  $("no-forecast").hidden = Boolean(snapshot.forecast);
  setText("forecast-note", snapshot.forecast ? `Forecast by ${snapshot.forecast.predictor}.` : "");
  drawCells($("cells"), cells);
  legend();
}

/** Draws everything, after a change of size or colours. The history is long, and drawn only when necessary. */
function drawAll() {
  draw();
  drawPast();
  fitReasons();
}

let due = false;
function show() {
  if (due || document.hidden) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    setText("cluster", snapshot.cluster);
    setText("state", `${moment(snapshot.now)} UTC${snapshot.rate === 1 ? "" : `, ${snapshot.rate} times real speed`}`);
    $("state").className = "live";
    document.body.classList.remove("old");
    figures(snapshot);
    controls(snapshot.controls);
    lists(snapshot);
    // For screen readers: only the words of the answers, which change rarely.
    const { harm, faults, gain } = snapshot.answers;
    setText("said", `harmed: ${harm.word}; broken: ${faults.word}; gained: ${gain.word}`);
    draw();
    if (past && pastIsDue()) drawPast();
    document.body.dataset.pictures = Number(document.body.dataset.pictures ?? 0) + 1;
  });
}

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

let asked = -Infinity, askLater = null;

/** Fetches the history, at the earliest `wait` ms after the last fetch. */
function refreshPast(wait = 0) {
  const left = asked + wait - performance.now();
  if (left > 0) {
    askLater ??= setTimeout(() => { askLater = null; refreshPast(); }, left);
    return;
  }
  asked = performance.now();
  askPast();
}

async function askPast() {
  if (document.hidden) return;
  try {
    const name = marked === null ? null : past.rows[marked]?.node;
    past = await ask("past");
    if (name) {
      const at = past.rows.findIndex((row) => row.node === name);
      marked = at < 0 ? null : at;
    }
    // Changes may have arrived during the fetch.
    follow(cells.map((code, place) => [place, code]));
    drawPast();
  } catch { /* The live stream shows that the server is gone. */ }
}

/** Extends the history up to now. Its rows are the nodes of the list of names, unless one of the two is older. */
function follow(changes) {
  if (!past || !snapshot || past.rows.length !== names.length) return;
  past.until = Math.max(past.until, snapshot.until);
  for (const t of snapshot.trainers) if (t.code !== null) past.trainers[t.code] = t.name;
  for (const [place, code] of changes) {
    const { node, turns } = past.rows[place];
    if (node !== names[place]) return;
    if (turns.length === 0 || turns[turns.length - 1][1] !== code) turns.push([past.until, code]);
  }
}

const doing = (code) => code === AWAY ? "the main scheduler has it" : code === IDLE ? "idle" : code === UNUSABLE ? "not usable now: withheld by the operator, in quarantine, or its agent is silent or has just left"
  : `trains ${snapshot.trainers.find((t) => t.code === code)?.name ?? "a trainer"}`;

/** Shows the details of a node. An answer is dropped if another node was chosen meanwhile. */
let detailsOf = "";
async function explain(name) {
  detailsOf = name;
  const at = names.indexOf(name);
  const details = $("told");
  details.hidden = false;
  if (at < 0) {
    details.textContent = `${name}: this node was not idle within the history of the page`;
    return;
  }
  const lines = [`${name}: ${doing(cells[at] ?? AWAY)}`];
  try {
    const node = await ask(`node/${encodeURIComponent(name)}`);
    if (node.above) lines[0] += `; on ${node.above.join(", below ")}`;
    if (node.hole) {
      lines[0] += `; idle since ${moment(node.hole.since)} UTC`;
      const [early, middle, late] = node.hole.likely_s.map((s) => s === null ? "later" : length(s));
      lines.push(`ends within ${early} with probability 10 %, within ${middle} with 50 %, within ${late} with 90 %`);
    }
    if (node.why) lines.push(node.why);
  } catch (error) {
    lines.push(String(error));
  }
  if (detailsOf === name) details.textContent = lines.join("\n");
}

function mark(place) {
  if (!past || past.rows.length === 0) return;
  marked = Math.max(0, Math.min(past.rows.length - 1, place));
  drawPast();
  explain(past.rows[marked].node);
}

function unmark() {
  detailsOf = "";
  marked = null;
  $("told").hidden = true;
  drawPast();
}

$("gantt").addEventListener("click", (event) => {
  if (!past) return;
  const at = placeAt($("gantt"), past, event.offsetY);
  if (at !== null) mark(at);
});
$("gantt").addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
  if (step) mark((marked ?? -1) + step);
  else if (event.key === "Enter" && marked !== null) mark(marked);
  else return;
  event.preventDefault();
});
$("find").addEventListener("input", () => {
  const text = $("find").value.trim();
  const near = text ? names.filter((name) => name.includes(text)).slice(0, 20) : [];
  $("names").replaceChildren(...near.map((name) => Object.assign(document.createElement("option"), { value: name })));
});
$("find").addEventListener("change", () => {
  const text = $("find").value.trim();
  if (!text) return unmark();
  const at = past ? past.rows.findIndex((row) => row.node === text) : -1;
  if (at < 0) explain(text);
  else mark(at);
});
$("span").addEventListener("change", drawPast);

function theme() {
  const root = document.documentElement;
  const dark = root.classList.contains("dark") || (!root.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
  root.classList.remove("dark", "light");
  root.classList.add(dark ? "light" : "dark");
  try { localStorage.setItem("lacuna-theme", dark ? "light" : "dark"); } catch { /* Not kept, then. */ }
  drawAll();
}
$("theme").addEventListener("click", theme);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return unmark();
  if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (!$("keys").checked) return;
  if (event.key === "t") theme();
  if (event.key === "/") { event.preventDefault(); $("find").focus(); }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
addEventListener("resize", drawAll);
document.addEventListener("visibilitychange", () => { if (snapshot) show(); refreshPast(); });

try {
  $("keys").checked = localStorage.getItem("lacuna-keys") !== "off";
  $("keys").addEventListener("change", () => localStorage.setItem("lacuna-keys", $("keys").checked ? "on" : "off"));
  const kept = localStorage.getItem("lacuna-theme");
  if (kept === "dark" || kept === "light") document.documentElement.classList.add(kept);
} catch { /* The system's, then. */ }

/** The events of the snapshot that is still incomplete. */
let news = [];

function connect() {
  const live = new EventSource("live");
  const on = (kind, take) => live.addEventListener(kind, (event) => take(JSON.parse(event.data)));
  on("names", ({ nodes }) => { names = nodes; refreshPast(NAMES_EVERY_MS); });
  on("whole", (whole) => {
    ({ cells, readings } = whole);
    news = cells.map((code, place) => [place, code]);
  });
  on("change", (change) => {
    for (const [place, code] of change.cells) cells[place] = code;
    readings.length = change.keep;
    readings.push(...change.readings);
    news.push(...change.cells);
  });
  on("now", (now) => {
    snapshot = now;
    follow(news);
    news = [];
    show();
  });
  live.addEventListener("error", () => {
    $("state").className = "lost";
    // What is shown looks old, since it may be wrong by now.
    document.body.classList.add("old");
    setText("state", `the gateway does not answer; retrying${snapshot ? `; the page is of ${moment(snapshot.now)} UTC` : ""}`);
    setText("said", "the gateway does not answer");
    // The browser tries again by itself, unless another server answered.
    if (live.readyState === EventSource.CLOSED) setTimeout(connect, AGAIN_MS);
  });
}

connect();
setInterval(refreshPast, PAST_EVERY_MS);
