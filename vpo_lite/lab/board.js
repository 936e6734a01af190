// The maze board: one ES module, no build step, nothing fetched. Python sets text, groups, description, note, large,
// editable; the browser answers with edit (a proposed grid), room (width to draw in, in pixels) and dark (the page's theme).
// Symbols, colours and letters are those of envs/drawing.py: nothing is said by colour alone.
// Longer than 350 lines because a widget is one file: there is no build step that would join several.

const CELL = 64, MARGIN = 30, FAR = 5;
const LEAST = 9, LEAST_LARGE = 16; // pixels of the smallest letter in a picture
const ROOMY = 640; // pixels, from which on a board alone leaves half of them to its tools
const BLACK = "#000000", FLOOR = "#FFFFFF", WALL = "#3B3B3B", LINE = "#C8C8C8";
const TOOLS = [
  ["#", "wall", "w"], [".", "floor", " "], ["G", "gold", "g"], ["D", "diamond", "d"],
  ["L", "lava", "l"], ["S", "start", "s"], ["E", "exit", "e"],
];
const NAMES = Object.fromEntries([...TOOLS.map(([symbol, name]) => [symbol, name]), ["B", "bonus"]]);
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const LAP = 2200, LAPS = 2; // milliseconds that a marker walks, and how often after each change

const CSS = `
.vpo-board { color: var(--jp-ui-font-color1, #222); font: 15px/1.35 var(--jp-ui-font-family, system-ui, sans-serif); }
.vpo-board.large { font-size: 20px; }
.vpo-board .groups { display: grid; grid-template-columns: repeat(var(--columns, 1), minmax(0, 1fr)); gap: 8px 14px; }
.vpo-board figure { margin: 0; max-width: 440px; container-type: inline-size; }
.vpo-board.large figure { max-width: 560px; }
.vpo-board figcaption { color: color-mix(in srgb, var(--colour, currentcolor) 65%, black); }
.vpo-board.dark figcaption { color: color-mix(in srgb, var(--colour, currentcolor) 45%, white); }
.vpo-board figcaption { font-weight: 700; margin: 0 0 4px; display: flex; gap: 8px; align-items: center; }
.vpo-board svg.maze { display: block; width: 100%; height: auto; border-radius: 4px; background: #fff; }
.vpo-board.editing svg.maze { touch-action: none; } /* else a finger scrolls the page */
.vpo-board .squares :not([data-r]) { pointer-events: none; }
.vpo-board svg.maze:focus-visible, .vpo-board button:focus-visible { outline: 3px solid #0072B2; outline-offset: 2px; }
.vpo-board.dark svg.maze:focus-visible, .vpo-board.dark button:focus-visible { outline-color: #56B4E9; }
.vpo-board .answers { list-style: none; margin: 5px 0 0; padding: 0; }
.vpo-board .answers li { position: relative; display: flex; align-items: center; gap: 8px; padding: 1px 0; white-space: nowrap; flex-wrap: wrap; }
.vpo-board .answers svg { flex: none; width: 1.7em; height: 1.7em; }
.vpo-board .what { flex: 1 1 auto; overflow: hidden; text-overflow: ellipsis; }
.vpo-board .share { flex: 0 0 6.6em; min-width: max-content; min-height: 1.25em; position: relative; border-radius: 3px;
  background: var(--jp-layout-color2, #eee); overflow: hidden; }
.vpo-board .share i { position: absolute; inset: 0 auto 0 0; opacity: .38; transition: width .12s; }
.vpo-board .share b { position: relative; display: block; text-align: center; white-space: nowrap; line-height: 1.44em; font-size: .87em; font-weight: 600; }
@media (prefers-reduced-motion: reduce) { .vpo-board .share i { transition: none; } }
@media (forced-colors: active) {
  .vpo-board .share i { forced-color-adjust: none; }
  .vpo-board button[aria-pressed="true"] { border: 4px double Highlight !important; }
}
.vpo-board .brief { display: none; }
@container (max-width: 21em) { /* of the figure's letters */
  .vpo-board .answers li { gap: 6px; }
  .vpo-board:not(.large) .answers li { font-size: 14px; }
  .vpo-board .answers .share { flex-basis: 5.7em; }
}
@container (max-width: 16em) {
  .vpo-board figcaption { font-size: .87em; }
  .vpo-board .answers li { gap: 3px; padding: 0; }
  .vpo-board:not(.large) .answers li { font-size: 13px; }
  .vpo-board:not(.large) .answers svg { width: 1.6em; height: 1.6em; }
  .vpo-board .answers .share { flex-basis: 3em; }
  .vpo-board .answers .word, .vpo-board.large .full { display: none; }
  .vpo-board.large .brief { display: inline; }
}
@container (max-width: 12.5em) {
  .vpo-board:not(.large) .answers li { font-size: 12px; }
  .vpo-board .answers .full { display: none; }
  .vpo-board .answers .brief { display: inline; }
}
.vpo-board .tools { grid-column: 1 / -1; }
.vpo-board .tools.aside { grid-column: auto; align-self: end; margin: 0 0 8px; }
.vpo-board .tools.top { align-self: start; margin-top: 1.8em; }
.vpo-board .tools { display: flex; flex-wrap: wrap; gap: 5px; margin-top: 8px; }
.vpo-board button { font: inherit; color: inherit; background: var(--jp-layout-color2, #eee); border: 2px solid transparent;
  border-radius: 4px; padding: 2px 9px; cursor: pointer; }
.vpo-board button[aria-pressed="true"] { border-color: #0072B2; font-weight: 700; }
.vpo-board.dark button[aria-pressed="true"] { border-color: #56B4E9; }
.vpo-board .note { flex: 1 0 100%; min-height: 1.35em; margin: 0; }
.vpo-board .note.wrong { color: #B3261E; font-weight: 600; }
.vpo-board.dark .note.wrong { color: #FF9C8F; }
.vpo-board.texts svg.maze, .vpo-board.texts .tools { display: none; }
.vpo-board.texts figure { max-width: none; }
.vpo-board.texts .answers li { flex-wrap: wrap; white-space: normal; padding: 3px 0; }
.vpo-board .answers code { flex: 1 1 60%; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 9em; overflow-y: auto;
  font: .93em/1.3 var(--jp-code-font-family, monospace); }
.vpo-board.texts .what { flex: 1 1 auto; white-space: normal; overflow: visible; }
.vpo-board .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;

const tag = (name, attributes, inner = "") =>
  `<${name} ${Object.entries(attributes).map(([k, v]) => `${k}="${v}"`).join(" ")}>${inner}</${name}>`;
const centre = ([r, c]) => [(c + 0.5) * CELL, (r + 0.5) * CELL];
const make = (name, className, parent) => {
  const element = document.createElement(name);
  if (className) element.className = className;
  return parent ? parent.appendChild(element) : element;
};

const CORNERS = { // of the markers that are no circle
  square: [[-.85, -.85], [.85, -.85], [.85, .85], [-.85, .85]],
  diamond: [[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]],
  "triangle-up": [[0, -1.2], [1.15, .85], [-1.15, .85]],
  "triangle-down": [[0, 1.2], [1.15, -.85], [-1.15, -.85]],
  bowtie: [[-1.1, -.85], [1.1, .85], [1.1, -.85], [-1.1, .85]],
  cross: [[-.4, -1.1], [.4, -1.1], [.4, -.4], [1.1, -.4], [1.1, .4], [.4, .4], [.4, 1.1], [-.4, 1.1], [-.4, .4], [-1.1, .4], [-1.1, -.4], [-.4, -.4]],
  x: [[.49, -1.06], [1.06, -.49], [.57, 0], [1.06, .49], [.49, 1.06], [0, .57], [-.49, 1.06], [-1.06, .49], [-.57, 0], [-1.06, -.49], [-.49, -1.06], [0, -.57]],
  star: [[0, -1.3], [.31, -.42], [1.24, -.4], [.49, .16], [.76, 1.05], [0, .52], [-.76, 1.05], [-.49, .16], [-1.24, -.4], [-.31, -.42]],
  hexagon: [[.91, .52], [0, 1.05], [-.91, .53], [-.91, -.53], [0, -1.05], [.91, -.52]],
};
function shape(symbol, x, y, r, attributes) {
  const corners = CORNERS[symbol];
  if (!corners) return tag("circle", { cx: x, cy: y, r, ...attributes });
  return tag("polygon", { points: corners.map(([a, b]) => `${x + a * r},${y + b * r}`).join(" "), ...attributes });
}

// rows of symbols as a picture below the routes, and the letters above them, of this size
function squares(rows, size) {
  const out = [], signs = [];
  const rim = { stroke: BLACK, "stroke-width": 3, "stroke-linejoin": "round" };
  const letter = (x, y, text, fill, halo) => signs.push(tag("text", {
    x, y: y + 0.35 * size, "font-size": size, fill, stroke: halo, "stroke-width": 5, "stroke-linejoin": "round", "paint-order": "stroke",
  }, text));
  rows.forEach((row, r) => [...row].forEach((symbol, c) => {
    const [x, y] = centre([r, c]), left = c * CELL, top = r * CELL;
    const fill = symbol === "#" ? WALL : symbol === "L" ? "#D55E00" : FLOOR;
    out.push(tag("rect", { x: left, y: top, width: CELL, height: CELL, fill, stroke: symbol === "#" ? WALL : LINE, "data-r": r, "data-c": c }));
    if (symbol === "S") out.push(tag("circle", { cx: x, cy: y, r: 23, fill: "none", stroke: BLACK, "stroke-width": 5 })), letter(x, y, "S", BLACK, FLOOR);
    if (symbol === "E") out.push(tag("rect", { x: left + 6, y: top + 6, width: 52, height: 52, rx: 6, fill: "#009E73", ...rim })), letter(x, y, "E", BLACK, "#009E73");
    if (symbol === "G") out.push(tag("circle", { cx: x, cy: y, r: 22, fill: "#F0E442", ...rim })), letter(x, y, "G", BLACK, "#F0E442");
    if (symbol === "D") out.push(shape("diamond", x, y, 23, { fill: "#56B4E9", ...rim })), letter(x, y, "D", BLACK, "#56B4E9");
    if (symbol === "B") out.push(shape("star", x, y, 23, { fill: "#CC79A7", ...rim })), letter(x, y, "B", BLACK, "#CC79A7");
    if (symbol === "L") {
      const wave = (dy) => `M${left + 3} ${y + dy} q7.25 -7 14.5 0 t14.5 0 t14.5 0 t14.5 0`;
      out.push(tag("path", { d: `${wave(-18)} ${wave(22)}`, fill: "none", stroke: FLOOR, "stroke-width": 3.5 })), letter(x, y, "L", BLACK, "#D55E00");
    }
  }));
  return [out.join(""), signs.join("")];
}

// the polyline of a route, in its own lane, stopping at the door of E
function track(route, i, n) {
  const lane = (i - (n - 1) / 2) * Math.min(9, 0.5 * CELL / Math.max(n, 1));
  const points = route.path.map((p) => centre(p).map((v) => v + lane));
  if (route.reached && points.length > 1) {
    const [a, b] = points.slice(-2);
    points[points.length - 1] = [a[0] + 0.45 * (b[0] - a[0]), a[1] + 0.45 * (b[1] - a[1])];
  }
  return points;
}

function drawRoute(route, points) {
  const line = points.map((p) => p.join(",")).join(" ");
  const shared = { points: line, fill: "none", "stroke-linejoin": "round", "stroke-linecap": "round" };
  const out = [
    tag("polyline", { ...shared, stroke: FLOOR, "stroke-width": 9, opacity: 0.85 }),
    tag("polyline", { ...shared, stroke: route.colour, "stroke-width": route.thin ? 3.5 : 5, "stroke-dasharray": route.dash || "none" }),
  ];
  const [x, y] = points[points.length - 1];
  if (points.length > 1 && route.reached) {
    const [px, py] = points[points.length - 2], dx = Math.sign(x - px), dy = Math.sign(y - py), a = 11;
    const corners = [[x + a * dx, y + a * dy], [x - a * dy, y + a * dx], [x + a * dy, y - a * dx]];
    out.push(tag("polygon", { points: corners.map((p) => p.join(",")).join(" "), fill: route.colour, stroke: FLOOR, "stroke-width": 2 }));
  } else if (!route.reached) {
    const cross = `M${x - 9} ${y - 9} l18 18 M${x - 9} ${y + 9} l18 -18`;
    out.push(tag("path", { d: cross, stroke: FLOOR, "stroke-width": 11 }), tag("path", { d: cross, stroke: route.colour, "stroke-width": 6 }));
  }
  return out.join("");
}

// Where the marker of route i rests: on a square of its route, near the middle; if possible without a letter, and this far
// from those that rest already.
function rest(points, i, grid, taken, apart) {
  const middle = (0.45 + 0.12 * (i % 4)) * (points.length - 1);
  const places = points.map((p, k) => [Math.abs(k - middle), p]).sort((a, b) => a[0] - b[0]).map(([, p]) => p);
  const costs = places.map(([x, y]) => 2 * taken.some(([a, b]) => Math.hypot(a - x, b - y) < apart) +
    (grid[Math.floor(y / CELL)]?.[Math.floor(x / CELL)] !== "."));
  const place = places[costs.indexOf(Math.min(...costs))];
  taken.push(place);
  return place;
}

function along(points, share) {
  const lengths = points.slice(1).map((p, i) => Math.hypot(p[0] - points[i][0], p[1] - points[i][1]));
  let left = share * lengths.reduce((a, b) => a + b, 0);
  for (let i = 0; i < lengths.length; i++) {
    if (left <= lengths[i] && lengths[i] > 0) {
      const t = left / lengths[i];
      return [points[i][0] + t * (points[i + 1][0] - points[i][0]), points[i][1] + t * (points[i + 1][1] - points[i][1])];
    }
    left -= lengths[i];
  }
  return points[points.length - 1];
}

function render({ model, el }) {
  const root = make("div", "vpo-board", el);
  make("style", "", root).textContent = CSS;
  const shelf = make("div", "groups", root);
  const tools = make("div", "tools", shelf);
  const note = make("p", "note", tools); // above the symbols: below them it may be out of sight
  note.setAttribute("role", "status");
  const text = make("p", "unseen text", root);
  const figures = []; // one for each group: {figure, caption, svg, layers, list, routes}
  let draft = model.get("text"), editing = false, tool = "#", cursor = [0, 0], said = "", began = performance.now(), frame = 0, queued = false;
  const rows = () => draft.split("\n").map((row) => row.split(" ").join(""));

  // ---- drawing ----
  function figureFor(i) {
    if (figures[i]) return figures[i];
    const figure = make("figure", ""), caption = make("figcaption", "", figure);
    shelf.insertBefore(figure, tools);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "maze");
    const names = ["labels", "squares", "routes", "signs", "walkers", "cursor"];
    svg.innerHTML = names.map((n) => `<g class="${n}"></g>`).join("");
    svg.setAttribute("font-family", "Helvetica, Arial, sans-serif");
    svg.setAttribute("font-weight", "bold");
    svg.setAttribute("text-anchor", "middle");
    figure.appendChild(svg);
    const layers = Object.fromEntries(names.map((n) => [n, svg.querySelector(`g.${n}`)]));
    for (const n of ["routes", "signs", "walkers", "cursor"]) layers[n].setAttribute("pointer-events", "none");
    const list = make("ul", "answers", figure);
    figures[i] = { figure, caption, svg, layers, list, routes: [] };
    if (i === 0) listen(svg);
    return figures[i];
  }

  function drawMaze(part, grid) {
    if (!grid[0].length) return; // answers as text
    const width = grid[0].length * CELL, height = grid.length * CELL;
    const least = model.get("large") ? LEAST_LARGE : LEAST, there = part.svg.clientWidth || 2 * width;
    // in units of the picture, whose margin grows with its letters
    const smallest = 1.01 * least * Math.max((width + MARGIN + FAR) / there, (width + FAR) / (there - 1.32 * least));
    const key = `${grid.join("\n")} ${smallest}`;
    if (part.key === key) return;
    part.key = key;
    part.letter = (usual) => Math.max(usual, smallest);
    const named = part.letter(19), margin = Math.max(MARGIN, 1.3 * named);
    part.svg.setAttribute("viewBox", `0 0 ${width + margin + FAR} ${height + margin + FAR}`);
    for (const name in part.layers) if (name !== "labels") part.layers[name].setAttribute("transform", `translate(${margin} ${margin})`);
    const label = (x, y, value) => tag("text", { x, y, "font-size": named, fill: "#555555" }, value);
    part.layers.labels.innerHTML =
      [...grid[0]].map((_, c) => label(margin + (c + 0.5) * CELL, margin - 0.4 * named, String.fromCharCode(97 + c))).join("") +
      grid.map((_, r) => label(margin / 2, margin + (r + 0.5) * CELL + 0.37 * named, r + 1)).join("");
    const [below, above] = squares(grid, part.letter(23));
    part.layers.squares.innerHTML = below + tag("rect", { width, height, fill: "none", stroke: WALL, "stroke-width": 4, "pointer-events": "none" });
    part.layers.signs.innerHTML = above;
  }

  function drawAnswers(part, group) {
    const shown = group.routes.filter((r) => r.path.length > 0);
    part.routes = shown.map((route, i) => ({ ...route, points: track(route, i, shown.length) }));
    part.layers.routes.innerHTML = part.routes.map((route) => drawRoute(route, route.points)).join("");
    part.list.replaceChildren(...group.routes.map((route) => {
      const item = make("li");
      item.innerHTML = `<svg viewBox="-14 -14 28 28" aria-hidden="true">${shape(route.marker, 0, 0, 10, { fill: route.colour, stroke: "#fff", "stroke-width": 1.5 })}` +
        tag("text", { x: 0, y: 5, "text-anchor": "middle", "font-size": 14, "font-weight": 700, fill: route.ink }, route.name) + "</svg>";
      if (route.text) make("code", "", item).textContent = route.text;
      make("span", "unseen", item).textContent = `${route.name}: `;
      const what = make("span", "what", item);
      make("span", "full", what).textContent = route.what;
      make("span", "brief", what).textContent = route.brief;
      if (route.win_share !== null) {
        make("span", "unseen", item).textContent = ", wins ";
        const bar = make("span", "share", item), fill = make("i", "", bar);
        fill.style.width = `${100 * route.win_share}%`;
        fill.style.background = route.colour;
        const said = make("b", "", bar);
        make("span", "word", said).textContent = "wins ";
        said.firstChild.setAttribute("aria-hidden", true); // said before
        said.append(`${Math.round(100 * route.win_share)}%`);
      }
      return item;
    }));
  }

  function drawCursor() {
    const [r, c] = cursor, part = figures[0];
    if (!model.get("text")) return;
    part.layers.cursor.innerHTML = editing
      ? tag("rect", { x: c * CELL + 3, y: r * CELL + 3, width: CELL - 6, height: CELL - 6, fill: "none", stroke: FLOOR, "stroke-width": 9, rx: 5 }) +
        tag("rect", { x: c * CELL + 3, y: r * CELL + 3, width: CELL - 6, height: CELL - 6, fill: "none", stroke: "#0072B2", "stroke-width": 5, rx: 5 })
      : "";
    part.svg.style.cursor = editing ? "crosshair" : "default";
  }

  function drawTools() {
    const editable = model.get("editable");
    tools.hidden = !editable;
    root.classList.toggle("editing", Boolean(editable) && editing);
    const held = document.activeElement && tools.contains(document.activeElement) ? document.activeElement.dataset.tool : null;
    for (const child of [...tools.children]) if (child !== note) child.remove();
    if (!editable) return;
    const toggle = make("button", "edit");
    tools.insertBefore(toggle, note);
    toggle.textContent = editing ? "✓ Done" : "✎ Edit maze";
    toggle.dataset.tool = "toggle";
    toggle.setAttribute("aria-pressed", editing);
    toggle.onclick = () => { editing = !editing; say(editing ? "Click a square, or use the arrow keys and a letter (W wall, blank floor). Enter or Escape ends." : ""); drawTools(); drawCursor();
      if (editing) figures[0].svg.focus({ preventScroll: true }); };
    if (editing) {
      const bar = make("span", "", tools);
      bar.setAttribute("role", "group");
      bar.setAttribute("aria-label", "what to paint");
      bar.style.cssText = "display:contents";
      for (const [symbol, name] of TOOLS) {
        const button = make("button", "tool", bar);
        button.textContent = symbol === "." ? "floor" : symbol === "#" ? "wall" : `${symbol} ${name}`;
        button.dataset.tool = symbol;
        button.setAttribute("aria-pressed", symbol === tool);
        button.onclick = () => { tool = symbol; drawTools(); };
      }
    }
    if (held) tools.querySelector(`[data-tool="${held}"]`)?.focus();
  }

  let refused = false; // until something else is said, or another maze is there
  function say(words) { said = words; refused = false; drawNote(); }
  function drawNote() {
    const words = refused ? model.get("note") : said;
    if (note.textContent !== words) note.textContent = words; // a screen reader reads out what is written anew
    note.classList.toggle("wrong", refused);
  }

  function draw() {
    queued = false;
    const groups = model.get("groups").length ? model.get("groups") : [{ title: "", routes: [] }];
    const grid = rows(), [one, two] = model.get("large") ? [400, 780] : [240, 600]; // pixels, below which so many columns fit
    const alone = groups.length === 1 && model.get("editable") && shelf.clientWidth >= ROOMY; // the tools stand beside it, or they would be out of sight
    const columns = alone ? 2 : shelf.clientWidth < one ? 1 : Math.min(groups.length, shelf.clientWidth < two ? 2 : 3);
    shelf.style.setProperty("--columns", columns);
    root.classList.toggle("large", model.get("large"));
    root.classList.toggle("texts", !model.get("text"));
    groups.forEach((group, i) => figureFor(i));
    figures.splice(groups.length).forEach((part) => part.figure.remove());
    groups.forEach((group, i) => {
      const part = figures[i];
      part.caption.textContent = group.title;
      part.caption.style.setProperty("--colour", group.colour || "");
      part.svg.setAttribute("aria-label", `${group.title || "maze"}: in words below the boards`);
      const editable = i === 0 && model.get("editable");
      part.svg.setAttribute("role", editable ? "application" : "img");
      if (editable) part.svg.setAttribute("tabindex", 0);
      else part.svg.removeAttribute("tabindex");
      drawMaze(part, grid);
      drawAnswers(part, group);
    });
    cursor = [Math.min(cursor[0], grid.length - 1), Math.min(cursor[1], grid[0].length - 1)];
    drawCursor();
    drawNote();
    text.textContent = model.get("description");
    root.dataset.drawn = Number(root.dataset.drawn || 0) + 1;
    root.dataset.text = draft;
    tools.classList.toggle("aside", alone || (groups.length > 2 && groups.length % columns > 0));
    tools.classList.toggle("top", alone);
    root.dataset.groups = groups.map((g) => g.title).join("|");
    walk();
  }
  const redraw = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };
  let wide = 0; // letters keep their least size when the pictures shrink
  const widths = new ResizeObserver(() => { if (shelf.clientWidth !== wide) { wide = shelf.clientWidth; redraw(); } });
  widths.observe(shelf);

  // ---- walkers: each route's marker walks along it twice after a change, then rests ----
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  function walk() {
    cancelAnimationFrame(frame);
    let last = 0;
    const tick = (now) => {
      const laps = (now - began) / LAP, moving = laps < LAPS && !still.matches;
      if (now - last > 45 || !moving) {
        last = now;
        for (const part of figures) {
          const taken = [];
          part.layers.walkers.innerHTML = part.routes.filter((r) => r.points.length > 1).map((route, i) => {
            const size = part.letter(15);
            const [x, y] = moving ? along(route.points, laps % 1) : rest(route.points, i, rows(), taken, 1.5 * size);
            return shape(route.marker, x, y, 0.73 * size, { fill: route.colour, stroke: FLOOR, "stroke-width": 2.5 }) +
              tag("text", { x, y: y + 0.34 * size, "font-size": size, fill: route.ink }, route.name);
          }).join("");
        }
      }
      if (moving) frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
  }

  // ---- editing ----
  let asked = []; // grids that Python has not answered yet: its answer to one must not undo the next
  function paint(r, c, symbol) {
    const grid = rows().map((row) => [...row]), there = grid[r]?.[c];
    if (there === undefined) return;
    model.set("note", "");
    if ("SE".includes(there) && there !== symbol) return say(`${there} can be moved, not painted over: press ${there} on another square.`);
    if (there === symbol && "SE".includes(symbol)) return;
    if ("SE".includes(symbol)) grid.forEach((row) => row.forEach((s, i) => { if (s === symbol) row[i] = "."; }));
    grid[r][c] = there === symbol ? "." : symbol;
    draft = grid.map((row) => row.join(" ")).join("\n");
    say(`${String.fromCharCode(97 + c)}${r + 1}: ${NAMES[grid[r][c]]}`);
    asked.push(draft);
    model.set("edit", { text: draft, count: (model.get("edit").count || 0) + 1 });
    model.save_changes();
    redraw();
  }

  function listen(svg) {
    svg.setAttribute("aria-roledescription", "maze");
    let last = "";
    const at = (event) => {
      const square = document.elementFromPoint(event.clientX, event.clientY)?.closest?.("[data-r]");
      return square && svg.contains(square) ? [Number(square.dataset.r), Number(square.dataset.c)] : null;
    };
    const touch = (event, first) => {
      const square = editing && at(event);
      if (!square || (!first && String(square) === last)) return;
      last = String(square);
      cursor = square;
      if (first || rows()[square[0]][square[1]] !== tool) paint(...square, tool);
      drawCursor();
    };
    svg.addEventListener("pointerdown", (event) => { if (editing) { svg.focus({ preventScroll: true }); event.preventDefault(); touch(event, true); } });
    svg.addEventListener("pointermove", (event) => { if (event.buttons & 1) touch(event, false); });
    const typed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !model.get("editable")) return;
      if (event.shiftKey && event.key === "Enter") return; // runs the notebook's cell
      const step = STEPS[event.key], key = event.key.toLowerCase();
      const chosen = TOOLS.find(([symbol, , letter]) => key === letter || key === symbol.toLowerCase());
      if (!editing && event.key !== "Enter") return; // keys paint only after Edit (or Enter on the board)
      if (!step && !["Enter", "Escape"].includes(event.key) && event.key.length > 1) return; // Tab leaves, F5 loads again
      event.preventDefault();
      event.stopPropagation(); // the notebook's own single-letter shortcuts must not fire
      if (event.key === "Enter" || event.key === "Escape") {
        editing = event.key === "Enter" && !editing;
        say(editing ? "Editing: arrow keys move, letters paint (W wall, blank floor), Enter ends." : "");
        drawTools();
      } else if (step) {
        const grid = rows();
        cursor = [Math.max(0, Math.min(grid.length - 1, cursor[0] + step[0])), Math.max(0, Math.min(grid[0].length - 1, cursor[1] + step[1]))];
        say(`${String.fromCharCode(97 + cursor[1])}${cursor[0] + 1}: ${NAMES[grid[cursor[0]][cursor[1]]]}`);
      } else if (chosen) paint(...cursor, chosen[0]);
      drawCursor();
    };
    svg.addEventListener("keydown", typed);
    tools.addEventListener("keydown", (event) => { // else "d d" deletes the notebook's cell
      if (!editing || !(STEPS[event.key] || event.key === "Escape" || (event.key.length === 1 && event.key !== " "))) return;
      typed(event);
      if (event.defaultPrevented) svg.focus({ preventScroll: true });
    });
  }

  // ---- what the page tells Python: the width there is, and whether it is dark ----
  function tell(name, value) {
    if (model.get(name) === value) return;
    model.set(name, value);
    try { model.save_changes(); } catch { /* the panel was closed, or the kernel is gone: nobody to tell */ }
  }
  let box = null, waiting = 0, patience = 600;
  const sizes = new ResizeObserver(() => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { if (box.clientWidth) tell("room", Math.round(box.clientWidth)); }, 80);
  });
  const settled = () => { // the board may not be on the page yet
    if (!root.isConnected && --patience > 0) return (place = setTimeout(settled, 100));
    box = root.closest(".vpo-lab");
    if (box) sizes.observe(box);
  };
  let place = setTimeout(settled, 0);
  const theme = () => {
    const { jpThemeLight } = document.body.dataset;
    const dark = jpThemeLight ? jpThemeLight === "false" : document.body.classList.contains("vscode-dark");
    root.classList.toggle("dark", dark);
    tell("dark", dark);
  };
  const themes = new MutationObserver(theme);
  themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "class"] });
  theme();

  const settle = () => {
    const there = model.get("text"), answered = asked.lastIndexOf(there);
    asked = model.get("note") || answered < 0 ? [] : asked.slice(answered + 1);
    if (!asked.length) draft = there;
    redraw();
  };
  const anew = () => { began = performance.now(); redraw(); };
  const heard = {
    text: () => { refused = false; settle(); },
    note: () => { refused = Boolean(model.get("note")); if (refused) settle(); else redraw(); },
    groups: anew, large: redraw, description: redraw, editable: () => { drawTools(); redraw(); },
  };
  for (const name in heard) model.on(`change:${name}`, heard[name]);
  drawTools();
  draw();
  return () => {
    for (const name in heard) model.off(`change:${name}`, heard[name]);
    cancelAnimationFrame(frame); clearTimeout(place); clearTimeout(waiting); sizes.disconnect(); widths.disconnect(); themes.disconnect();
  };
}

export default { render, shape }; // shape: for the figures beside a board
