// A lesson: what was recorded (data), what somebody looks at (state), and the pictures of both. All is drawn anew after a
// change, at most once a frame.

const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const { points, runs, answers, styles, names } = data;
const LAST = Math.max(...runs.map((run) => run.steps.length)), PAUSE = 900; // milliseconds of a step in Play
const state = { step: data.unseen ? 1 : LAST, alpha: data.alpha, who: 0, timer: 0, told: !data.unseen };
const sum = (values) => values.reduce((a, b) => a + b, 0);
const two = (value) => value.toFixed(2), three = (value) => value.toFixed(3), percent = (value) => `${Math.round(100 * value)} %`;
const alphaNow = () => data.alphas[state.alpha];
const momentOf = (run) => run.steps[Math.min(state.step, run.steps.length) - 1];
const labelNow = (run) => state.step > run.steps.length ? `${run.label} (ended at step ${run.steps.length})` : run.label;
const seen = (steps) => data.unseen ? steps.slice(0, state.step) : steps; // the rest is to be predicted, also from the ends of the axes

// ---- what Python computed for the α of now ----

const now = () => data.judged_at[state.alpha];
// the front; null where it is not known, and where a class is to predict what one answer can take
const front = () => state.told ? data.front : null, whole = () => front()?.map(([, point]) => point);
// the best answers of the front, and what the best 1, 2, ... cover, up to the size of a set
const asked = () => now().best, levels = () => front() ? now().ceilings : [];
// the set on show at Who wins, [[answer, point], ...], and how often each of its answers wins
const setOf = (who) => who < runs.length ? momentOf(runs[who]).typical : asked().map((i) => front()[i]);
const sharesOf = (who) => who < runs.length ? now().shares[momentOf(runs[who]).set] : now().best_shares;

// ---- the board: the panel's own, with these values in the place of a kernel ----

const values = {
  text: data.text, groups: [], description: data.description, note: "", editable: false, large: false, edit: {}, room: 0, dark: false,
};
const listeners = {};
const model = {
  get: (name) => values[name],
  set: (name, value) => { values[name] = value; (listeners[`change:${name}`] || []).forEach((f) => f()); },
  on: (events, f) => events.split(" ").forEach((event) => (listeners[event] ||= []).push(f)),
  save_changes: () => {},
};

function drawn(title, colour, who) {
  const shares = sharesOf(who);
  const routes = setOf(who).map(([answer], i) => ({ path: [], ...answers[answer], ...styles[i % styles.length], name: String(i + 1), win_share: shares[i] }));
  return { title, colour, routes };
}

function drawBoard() {
  const groups = runs.map((run, who) => drawn(run.label, run.colour, who));
  if (front()) groups.push(drawn(bestName(), "", runs.length));
  const said = groups.flatMap(({ title, routes }) => routes.map((route) =>
    `${title}, ${data.noun} ${route.name}: ${route.text ? `${route.text}: ` : ""}${route.what}, wins ${Math.round(100 * route.win_share)} percent` +
    (route.by ? `, by ${route.by}` : "")));
  values.description = [data.description, ...said].filter(Boolean).join(" ");
  values.large = parseFloat(getComputedStyle(document.documentElement).fontSize) >= 20;
  model.set("groups", groups);
}

// ---- words and numbers ----

const bestName = () => `best set of ${asked().length}`;
const differing = names.map((_, k) => k).filter((k) => data.front?.some(([, point]) => Math.abs(points[point][k] - points[data.front[0][1]][k]) > 1e-9));
const MOST_NAMED = 4; // objectives; beyond, their numbers stand alone
const numbers = (point) => differing.map((k) => `${names[k]} ${two(points[point][k])}`).join(", ");
const inWords = ([answer, point]) => differing.length > MOST_NAMED ? answers[answer].what : numbers(point);

function drawWords(judged) {
  const name = data.judged[0].toUpperCase() + data.judged.slice(1);
  const found = runs.map((run, i) => `${labelNow(run)} ${three(judged[i])}`).join(", ");
  const parts = [`Step ${state.step} of ${LAST}, α = ${alphaNow()}.`, `${name}: ${found}.`];
  if (front()) {
    const [single, ...others] = levels().map(three);
    parts.push(`The best single answer covers ${[single, ...others.map((level, i) => `the best ${i + 2} ${level}`)].join(", ")}.`);
    parts.push(`The ${bestName()} holds ${asked().map((i) => `(${inWords(front()[i])})`).join(" and ")}.`);
  }
  const shares = sharesOf(state.who), winning = shares.map((s, i) => [i + 1, s]).filter(([, s]) => s >= 0.005);
  parts.push(`Who wins, ${nameOf(state.who)}: ${winning.map(([i, s]) => `answer ${i} ${percent(s)}`).join(", ")}.`);
  find("words").textContent = parts.join(" ");
}

const nameOf = (who) => runs[who]?.label ?? bestName();

function drawTable(judged) {
  const table = find("runs"), head = ["run", data.judged, "diversity", `answers that ${data.missed}`];
  table.querySelectorAll("thead, tbody").forEach((part) => part.remove());
  const cell = (row, name, text, scope) => {
    const made = row.appendChild(document.createElement(name));
    made.textContent = text;
    if (scope) made.scope = scope;
    return made;
  };
  const top = table.createTHead().insertRow(), body = table.createTBody();
  head.forEach((text) => cell(top, "th", text, "col"));
  runs.forEach((run, i) => {
    const row = body.insertRow(), moment = momentOf(run), first = cell(row, "th", labelNow(run), "row");
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    first.prepend(svg);
    charts.swatch(svg, run);
    [three(judged[i]), two(moment.diversity), percent(1 - moment.valid)].forEach((text) => cell(row, "td", text));
  });
  if (!front()) return;
  const row = body.insertRow();
  cell(row, "th", bestName(), "row");
  [three(levels().at(-1)), "", ""].forEach((text) => cell(row, "td", text));
}

// ---- figures ----

function drawSpace() {
  const [across, up] = data.axes, at = (point) => [points[point][across], points[point][up]];
  const hollow = (point) => data.hollow !== null && points[point][data.hollow[0]] < 1;
  const clouds = runs.map((run) => {
    const { cloud } = momentOf(run), count = sum(cloud.map(([, n]) => n));
    return { ...run, points: cloud.filter(([, , valid]) => valid).map(([point, n]) => [...at(point), n / count, hollow(point)]) };
  });
  const places = new Map();
  setOf(state.who).forEach(([answer, point], i) => {
    const place = String(at(point));
    places.set(place, [...at(point), [...(places.get(place)?.[2] ?? []), i + 1]]);
  });
  const met = new Set([...(whole() || []), ...runs.flatMap((run) => seen(run.steps).flatMap(({ cloud }) => cloud.map(([point]) => point)))]);
  const ends = [...met].flatMap(at), low = Math.min(0, ...ends), high = Math.max(1, ...ends), room = 0.12 * (high - low);
  charts.space(find("space"), {
    clouds, names: data.axis_names, range: [low - room, high + room],
    front: (whole() || []).map((point, i) => [...at(point), asked().includes(i)]),
    numbers: [...places.values()].map(([x, y, found]) => [x, y, found.join(",")]),
    said: `${data.axis_names[0]} across, ${data.axis_names[1]} up. ` + runs.map((run) => {
      const { cloud } = momentOf(run), count = sum(cloud.map(([, n]) => n));
      const most = cloud.filter(([, , valid]) => valid).sort((a, b) => b[1] - a[1]).slice(0, 3);
      return `${run.label}: ${most.map(([point, n]) => `${percent(n / count)} at ${at(point).map(two).join(", ")}`).join("; ")}.`;
    }).join(" "),
  });
  const parts = ["size: count", ...(front() ? ["rings: true front, thick: best set"] : []), ...(data.hollow ? [`open: ${data.hollow[1]}`] : []),
    ...(runs.length > 1 ? ["marks of several runs stand side by side"] : [])];
  find("space").querySelector("span").textContent = parts.join(" · ");
}

// the part of a simplex (rows of weights) in which answer i beats the others; corners: the objectives that count
function region(i, vectors, corners) {
  let polygon = corners.map((_, k) => corners.map((__, l) => Number(k === l)));
  for (const other of vectors) {
    const height = (w) => sum(corners.map((c, k) => w[k] * (vectors[i][c] - other[c])));
    polygon = polygon.flatMap((a, k) => {
      const b = polygon[(k + 1) % polygon.length], [h, g] = [height(a), height(b)], t = h / (h - g);
      return [...(h >= 0 ? [a] : []), ...(h * g < 0 ? [a.map((v, l) => v + t * (b[l] - v))] : [])];
    });
  }
  return polygon;
}

function drawWinners() {
  const set = setOf(state.who), vectors = set.map(([, point]) => points[point]), shares = sharesOf(state.who);
  const corners = data.corners ?? (data.d === 2 ? [0, 1] : null);
  const style = (i) => styles[i % styles.length], winning = vectors.map((_, i) => i).filter((i) => shares[i] > 1e-9);
  const figure = find("winners"), caption = figure.querySelector("figcaption > span");
  const said = winning.map((i) => `answer ${i + 1} wins ${percent(shares[i])}`).join(", ");
  if (!corners) {
    caption.textContent = "of all w drawn with this α";
    return charts.shares(figure, { parts: set.map((_, i) => ({ share: shares[i], style: style(i), name: String(i + 1) })), said });
  }
  const found = winning.map((i) => ({ i, polygon: region(i, vectors, corners), style: style(i), name: String(i + 1) })).filter(({ polygon }) => polygon.length);
  const dots = data.weights[state.alpha].map((w) => {
    const scores = vectors.map((v) => sum(v.map((r, k) => w[k] * r))), most = Math.max(...scores);
    const total = Math.max(sum(corners.map((c) => w[c])), 1e-12);
    return { at: corners.map((c) => w[c] / total), style: style(scores.findIndex((s) => s >= most - 1e-9)) };
  });
  const left = data.beyond.length ? ` · no corner for ${data.beyond.join(", ")}` : "";
  caption.textContent = `dots: ${dots.length} w drawn with this α${left}`;
  if (data.d === 2) {
    const ends = ({ polygon }) => polygon.map(([w]) => w);
    const regions = found.map((part) => ({ ...part, from: Math.min(...ends(part)), to: Math.max(...ends(part)) }));
    return charts.bar(figure, { regions, dots: dots.map((dot) => ({ ...dot, at: dot.at[0] })), corners: names, said });
  }
  charts.triangle(figure, { regions: found, dots, corners: data.corner_names, said });
}

function drawCurves(judged) {
  const curves = judged.map(seen), spread = runs.map((run) => seen(run.steps).map((moment) => moment.diversity));
  const figure = find("judged"), ceilings = levels().map((value, i) => [value, i + 1]);
  const distinct = ceilings.filter(([value], i) => !i || value > ceilings[i - 1][0] + 1e-9), all = [...curves.flat(), ...levels()];
  const ofRuns = (series) => runs.map((run, i) => ({ ...run, values: series[i] }));
  const over = data.unseen ? state.step : LAST, steps = over === 1 ? "at step 1" : `over ${over} steps`;
  const ends = (series) => runs.map((run, i) => `${run.label} from ${two(series[i][0])} to ${two(series[i].at(-1))}`).join(", ");
  figure.querySelector("b").textContent = data.judged[0].toUpperCase() + data.judged.slice(1);
  figure.querySelector("span").textContent = `at α = ${alphaNow()}${front() ? " · dotted: best answers" : ""}`;
  const low = Math.min(0.5, Math.floor(Math.min(...all) * 10) / 10), high = Math.max(data.front ? 1.03 : low + 0.1, ...all);
  const shared = { step: state.step, last: LAST };
  charts.curves(figure, { ...shared, runs: ofRuns(curves), levels: distinct, low, high, said: `${data.judged} ${steps}: ${ends(curves)}` });
  const top = Math.max(1, Math.ceil(5 * Math.max(...spread.flat())) / 5);
  charts.curves(find("diversity"), { ...shared, runs: ofRuns(spread), low: 0, high: top, said: `diversity ${steps}: ${ends(spread)}` });
}

// ---- drawing and asking ----

function draw() {
  const { curves } = now(), judged = curves.map((curve) => curve[Math.min(state.step, curve.length) - 1]);
  find("step").value = state.step;
  find("alpha").value = state.alpha;
  find("step").setAttribute("aria-valuetext", `step ${state.step} of ${LAST}`);
  find("alpha").setAttribute("aria-valuetext", `α = ${alphaNow()}`);
  find("step-now").textContent = `${state.step} of ${LAST}`;
  find("alpha-now").textContent = alphaNow();
  drawTable(judged);
  drawWords(judged);
  drawBoard();
  drawSpace();
  drawWinners();
  drawCurves(curves);
  document.body.dataset.drawn = Number(document.body.dataset.drawn || 0) + 1;
}
let queued = false;
const redraw = () => {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => { queued = false; draw(); });
};

// the first step of a page for a vote shows nothing of the front; what comes later does, and so does each step from then on
function tell() {
  state.told = true;
  if (data.front && find("who").length === runs.length) find("who").append(new Option("best set", runs.length));
}

function play(on) {
  clearInterval(state.timer);
  state.timer = 0;
  if (on) {
    tell();
    if (state.step === LAST) state.step = 1;
    state.timer = setInterval(() => {
      state.step = Math.min(state.step + 1, LAST);
      if (state.step === LAST) play(false);
      redraw();
    }, PAUSE);
  }
  find("play").textContent = on ? "❚❚ Pause" : "▶ Play"; // glyphs that every font has, and no emoji
  find("play").setAttribute("aria-label", on ? "Pause" : "Play");
  find("words").setAttribute("aria-live", on ? "off" : "polite"); // nobody can listen to a sentence a second
  redraw();
}

function theme() {
  const dark = find("theme").value ? find("theme").value === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.body.dataset.jpThemeLight = String(!dark); // the board looks for Jupyter's theme
}

find("step").max = LAST;
find("alpha").max = data.alphas.length - 1;
find("who").append(...runs.map((run, i) => new Option(run.label, i)));
if (state.told) tell();
find("play").onclick = () => play(!state.timer);
find("step").oninput = (event) => {
  play(false);
  state.step = Number(event.target.value);
  if (state.step > 1) tell();
  redraw();
};
find("alpha").oninput = (event) => { state.alpha = Number(event.target.value); redraw(); };
find("who").onchange = (event) => { state.who = Number(event.target.value); redraw(); };
find("theme").onchange = theme;
find("controls").onsubmit = (event) => event.preventDefault();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
theme();
board.render({ model, el: find("board") });
draw();
let wide = 0;
new ResizeObserver(([{ target }]) => {
  if (target.clientWidth !== wide) redraw();
  wide = target.clientWidth;
}).observe(find("space"));

export default {};
