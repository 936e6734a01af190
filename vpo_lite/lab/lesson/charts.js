// The figures of a lesson as SVG, in pixels of the page: letters keep their size on every screen. Texts are set as texts.
// Colours alone say nothing: each run has a marker and a dash, each answer a number. Every line has an edge in the ink of
// the page, so that also the light colours stand out.

const NS = "http://www.w3.org/2000/svg";
const { shape } = board;

function make(parent, name, attributes = {}, text = null) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return parent.appendChild(made);
}

// an empty picture of this figure's width, and at least so many letters high; em: the size of a letter
function begin(figure, ratio, said, letters = 12) {
  const svg = figure.querySelector(":scope > svg") || make(figure, "svg", { role: "img" });
  const em = 0.875 * parseFloat(getComputedStyle(document.documentElement).fontSize);
  const width = figure.clientWidth, height = Math.round(Math.max(letters * em, Math.min(ratio * width, 30 * em)));
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.setAttribute("font-size", em);
  svg.setAttribute("aria-label", said);
  return { svg, em, width, height };
}

// a marker with an edge of ink; hollow: only its outline, in its colour
function marker(parent, symbol, x, y, r, colour, hollow = false) {
  const group = make(parent, "g");
  group.innerHTML = hollow
    ? shape(symbol, x, y, r, { fill: "none", class: "edge", "stroke-width": 5 }) + shape(symbol, x, y, r, { fill: "none", stroke: colour, "stroke-width": 2.5 })
    : shape(symbol, x, y, r, { fill: colour, class: "edge", "stroke-width": 1.2 });
}

function line(parent, points, colour, dash) {
  const shared = { points: points.map((p) => p.join(",")).join(" "), fill: "none", "stroke-dasharray": dash || "none", "stroke-linejoin": "round" };
  make(parent, "polyline", { ...shared, class: "edge", "stroke-width": 4.6 });
  make(parent, "polyline", { ...shared, stroke: colour, "stroke-width": 3 });
}

const label = (parent, x, y, text, attributes = {}) => make(parent, "text", { x, y, ...attributes }, text);
const tidy = (value) => String(Number(value.toFixed(6)));

// axes with ticks; returns the functions from values to pixels
function axes({ svg, em, width, height }, { x, y, xticks, yticks, xname, yname, right = 0.8 * em }) {
  const left = 3.2 * em, top = yname ? 1.5 * em : 0.6 * em, bottom = height - 2.9 * em, end = width - right;
  const X = (v) => left + (v - x[0]) / (x[1] - x[0]) * (end - left), Y = (v) => bottom - (v - y[0]) / (y[1] - y[0]) * (bottom - top);
  for (const v of xticks) {
    make(svg, "line", { x1: X(v), x2: X(v), y1: top, y2: bottom, class: "axis" });
    label(svg, X(v), bottom + 1.15 * em, tidy(v), { "text-anchor": "middle" });
  }
  for (const v of yticks) {
    make(svg, "line", { x1: left, x2: end, y1: Y(v), y2: Y(v), class: "axis" });
    label(svg, left - 0.4 * em, Y(v) + 0.35 * em, tidy(v), { "text-anchor": "end" });
  }
  label(svg, (left + end) / 2, bottom + 2.4 * em, xname, { "text-anchor": "middle" });
  if (yname) label(svg, 0, 0.9 * em, `↑ ${yname}`);
  return { X, Y, left, end, top, bottom };
}

// round values between two ends, at most six: one more than the steps that there is room for
function ticks(low, high, room) {
  const rough = (high - low) / Math.max(1, Math.min(5, Math.floor(room))), unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((n) => n * unit >= rough - 1e-9), out = [];
  for (let v = Math.ceil(low / step - 1e-9); v * step <= high + 1e-9; v++) out.push(v * step);
  return out;
}

// curves over steps. runs: {label, colour, marker, dash, values}; levels: dotted lines [value, name], ascending
function curves(figure, { runs, levels = [], step, last, low, high, said }) {
  const canvas = begin(figure, 0.56, said), { svg, em } = canvas;
  const whole = ticks(1, last, (canvas.width - 8 * em) / (3.5 * em)).filter((v) => Number.isInteger(v) && v > 0);
  const { X, Y, left, end, top, bottom } = axes(canvas, {
    x: [0.5, last + 0.5], y: [low, high], xname: "step",
    xticks: [...new Set([1, ...whole.filter((v) => v > last / 12)])], yticks: ticks(low, high, canvas.height / (2.2 * em)),
    right: levels.length ? 5.4 * em : 0.8 * em,
  });
  let together = [];
  levels.forEach(([value, name], i) => {
    make(svg, "line", { x1: left, x2: end, y1: Y(value), y2: Y(value), class: "level" });
    together.push(name);
    if (i + 1 < levels.length && Y(value) - Y(levels[i + 1][0]) < 1.15 * em) return; // they share a text
    const names = together.length > 1 ? `${together[0]}–${together[together.length - 1]}` : together[0];
    label(svg, end + 0.9 * em, Y(value) + 0.35 * em, `best ${names}`);
    together = [];
  });
  make(svg, "line", { x1: X(step), x2: X(step), y1: top, y2: bottom, class: "now" });
  for (const run of runs) {
    const points = run.values.map((value, i) => [X(i + 1), Y(value)]);
    line(svg, points, run.colour, run.dash);
    const at = Math.min(step, points.length) - 1, every = Math.max(5, Math.round(last / 8));
    points.forEach(([x, y], i) => { if (i === at || (i + 1) % every === 0) marker(svg, run.marker, x, y, i === at ? 6.5 : 4, run.colour); });
  }
}

// objective space. front: [x, y, asked for]; clouds: {colour, marker, points: [x, y, share, hollow]}; numbers: [x, y, text]
function space(figure, { front, clouds, numbers, names, range, said }) {
  const canvas = begin(figure, 0.66, said), { svg, em } = canvas;
  const marks = ticks(...range, (canvas.width - 4 * em) / (4 * em));
  const { X, Y } = axes(canvas, { x: range, y: range, xticks: marks, yticks: marks, xname: `${names[0]} →`, yname: names[1], right: 1.4 * em });
  for (const [x, y, asked] of front) {
    make(svg, "circle", { cx: X(x), cy: Y(y), r: 15, fill: "none", stroke: "var(--quiet)", "stroke-width": 2 });
    if (asked) make(svg, "circle", { cx: X(x), cy: Y(y), r: 20, fill: "none", class: "edge asked", "stroke-width": 4 });
  }
  clouds.forEach(({ colour, marker: symbol, points }, i) => {
    const aside = (i - (clouds.length - 1) / 2) * 13; // between the markers of two runs at one point
    for (const [x, y, share, hollow] of points) marker(svg, symbol, X(x) + aside, Y(y) - aside / 3, 3 + 8 * Math.sqrt(share), colour, hollow);
  });
  for (const [x, y, text] of numbers) label(svg, X(x) + 1.7 * em, Y(y) + 1.5 * em, text, { class: "halo", "font-weight": 700, "text-anchor": "middle" });
}

const tint = (colour) => ({ fill: colour, "fill-opacity": 0.16, class: "edge", "stroke-width": 1.5 });
const badge = (svg, em, x, y, style, name) => {
  marker(svg, style.marker, x, y, 0.85 * em, style.colour);
  label(svg, x, y + 0.35 * em, name, { "text-anchor": "middle", "font-weight": 700, style: `fill: ${style.ink}` });
};

// a triangle of weights; its corners stand as in the panel: top, left, right. regions: {polygon: rows of 3, style, name}; dots: {at: row of 3, style}
function triangle(figure, { regions, dots, corners, said }) {
  const { svg, em, width, height } = begin(figure, 0.66, said);
  const side = Math.min(width - 5 * em, (height - 3.2 * em) / 0.866), left = (width - side) / 2, low = height - 1.7 * em;
  const place = ([a, b, c]) => [left + side * (c + a / 2) / (a + b + c), low - 0.866 * side * a / (a + b + c)];
  make(svg, "polygon", { points: [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map(place).join(" "), fill: "none", class: "edge", "stroke-width": 1.5 });
  for (const { polygon, style } of regions) make(svg, "polygon", { points: polygon.map(place).join(" "), ...tint(style.colour) });
  for (const { at, style } of dots) marker(svg, style.marker, ...place(at), 2.6, style.colour);
  for (const { polygon, style, name } of regions) {
    const points = polygon.map(place), mean = (k) => points.reduce((s, p) => s + p[k], 0) / points.length;
    badge(svg, em, mean(0), mean(1), style, name);
  }
  label(svg, left + side / 2, low - 0.866 * side - 0.5 * em, corners[0], { "text-anchor": "middle", class: "halo" });
  label(svg, left, low + 1.3 * em, corners[1], { "text-anchor": "middle", class: "halo" });
  label(svg, left + side, low + 1.3 * em, corners[2], { "text-anchor": "middle", class: "halo" });
}

// two objectives: the weight of the first from 0 to 1. regions: {from, to, style, name}; dots: {at, style}
function bar(figure, { regions, dots, corners, said }) {
  const { svg, em, width, height } = begin(figure, 0.45, said), left = 1.5 * em, end = width - 1.5 * em, low = height - 3 * em, top = 2 * em;
  const X = (v) => left + v * (end - left);
  for (const { from, to, style } of regions) {
    make(svg, "rect", { x: X(from), y: top, width: Math.max(0, X(to) - X(from)), height: low - top, ...tint(style.colour) });
  }
  dots.forEach(({ at, style }, i) => marker(svg, style.marker, X(at), top + (low - top) * (0.1 + 0.8 * ((i * 0.618) % 1)), 2.6, style.colour));
  for (const { from, to, style, name } of regions) badge(svg, em, X((from + to) / 2), (top + low) / 2, style, name);
  label(svg, left, low + 1.3 * em, `all for ${corners[1]}`);
  label(svg, end, low + 2.5 * em, `all for ${corners[0]}`, { "text-anchor": "end" });
}

// win shares, where three corners do not tell all. parts: {share, style, name}
function shares(figure, { parts, said }) {
  const { svg, em, width } = begin(figure, 0, said, 2 * parts.length + 1), left = 2.4 * em, end = width - 3.2 * em;
  parts.forEach(({ share, style, name }, i) => {
    const y = (1 + 2 * i) * em + em;
    badge(svg, em, 1.1 * em, y, style, name);
    const bounds = { x: left, y: y - 0.6 * em, width: Math.max(1, share * (end - left)), height: 1.2 * em };
    make(svg, "rect", { ...bounds, fill: style.colour, class: "edge", "stroke-width": 1 });
    label(svg, left + share * (end - left) + 0.4 * em, y + 0.35 * em, `${Math.round(100 * share)} %`);
  });
}

// the marker and the dash of a run, as in the curves
function swatch(svg, { colour, marker: symbol, dash }) {
  svg.setAttribute("viewBox", "0 0 46 16");
  svg.setAttribute("aria-hidden", "true");
  line(svg, [[1, 8], [45, 8]], colour, dash);
  marker(svg, symbol, 23, 8, 5.5, colour);
}

export default { curves, space, triangle, bar, shares, swatch };
