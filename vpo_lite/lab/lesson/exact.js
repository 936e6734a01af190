// The exact set reward U = E_{w ~ Dir(alpha)} max_i w . r_i of small sets. A port of vpo_lite/exact.py: the same three
// methods, the same limit, the same points. tests/test_lesson.py compares both on 1,000 random sets, to 1e-9.

const PIECE_LIMIT = 2 ** 15, BITS = 30;
const sum = (values) => values.reduce((a, b) => a + b, 0);
const dot = (a, b) => { let s = 0; for (let k = 0; k < a.length; k++) s += a[k] * b[k]; return s; };
const largest = (R) => Math.max(0, ...R.flat().map(Math.abs));

// which answers are non-dominated; of equal answers the first
function nondominated(R) {
  const atLeast = (a, b) => a.every((value, k) => value >= b[k]);
  return R.map((_, i) => i).filter((i) => !R.some((other, j) =>
    j !== i && atLeast(other, R[i]) && (!atLeast(R[i], other) || j < i)));
}

// {value, shares, method} of one set R (n rows of d numbers). points: see `cube`; needed for d > 2 alone
function integrate(R, alpha, points) {
  const d = R[0].length, scale = largest(R), grid = 2 ** (Math.ceil(Math.log2(scale || 1)) - 40);
  const onGrid = R.map((r) => r.map((v) => Math.round(v / grid) * grid)); // answers that differ by rounding become equal
  const kept = nondominated(onGrid), n = kept.length;
  const middle = R[0].map((_, k) => sum(kept.map((i) => R[i][k])) / n);
  const answers = kept.map((i) => R[i].map((v, k) => v - middle[k])), rounded = kept.map((i) => onGrid[i]);
  let M = null, method = d === 2 ? "beta" : "split";
  if (d === 2) M = envelope(rounded, alpha);
  else if (n === 1) M = [middle.map(() => 1 / d)];
  else if (alpha === 1) M = cut(rounded);
  let gain, won;
  if (M) [gain, won] = [sum(M.map((row, i) => dot(row, answers[i]))), M.map(sum)];
  else [gain, won, method] = [...overPoints(answers, weights(alpha, d, points)), "sobol"];
  const single = Math.max(...R.map((r) => sum(r) / d)), ideal = sum(middle.map((_, k) => Math.max(...R.map((r) => r[k])))) / d;
  const shares = R.map(() => 0);
  kept.forEach((i, at) => { shares[i] = won[at]; });
  return { value: Math.min(Math.max(sum(middle) / d + gain, single), ideal), shares, method };
}

// ---- exactly: rows M_i = E[w; answer i wins] ----

// d = 2: the answers are lines over x = w_1 ~ Beta(alpha, alpha)
function envelope(R, alpha) {
  return R.map(([a, b]) => {
    let low = 0, high = 1;
    for (const [c, e] of R) {
      const steeper = c - e - (a - b), crossing = (b - e) / steeper;
      if (steeper < 0) low = Math.max(low, crossing);
      if (steeper > 0) high = Math.min(high, crossing);
    }
    low = Math.min(low, 1);
    high = Math.max(low, high);
    const between = (p, q) => beta(p, q, high) - beta(p, q, low), first = between(alpha + 1, alpha) / 2;
    return [first, between(alpha, alpha) - first];
  });
}

// alpha = 1: every answer starts with the whole simplex, and each rival cuts away what it wins. null: too many pieces
function cut(R) {
  const n = R.length, d = R[0].length, limit = Math.max(1, PIECE_LIMIT / d ** 2 * Math.min(n, 256 / Math.max(n - 1, 1)));
  if (n > limit) return null;
  const tiny = 1e-14 * largest(R), whole = R[0].map((_, k) => R[0].map((__, l) => Number(k === l)));
  const distance = (a, b) => sum(a.map((v, k) => Math.abs(v - b[k])));
  const rivals = R.map((r, i) => R.filter((_, j) => j !== i).sort((a, b) => distance(r, a) - distance(r, b))); // near ones cut most
  let regions = R.map(() => [{ corners: whole, volume: 1 }]);
  for (let t = 0; t < n - 1; t++) {
    regions = regions.map((pieces, i) => pieces.flatMap((piece) => clip(piece, R[i].map((v, k) => v - rivals[i][t][k]), tiny)));
    if (sum(regions.map((pieces) => pieces.length)) > limit * Math.min(1, (t + 1) / (n - 1))) return null;
  }
  return regions.map((pieces) => whole.map((_, k) => sum(pieces.map(({ corners, volume }) => volume * sum(corners.map((v) => v[k])) / d))));
}

// the parts of a simplex where normal . w >= 0, as simplices
function clip({ corners, volume }, normal, tiny) {
  const heights = corners.map((v) => dot(v, normal)).map((h) => Math.abs(h) < tiny ? 0 : h);
  const waiting = [[corners, heights, volume]], found = [];
  while (waiting.length) {
    const [its, h, part] = waiting.pop(), high = Math.max(...h), low = Math.min(...h);
    if (low >= 0) found.push({ corners: its, volume: part });
    if (low >= 0 || high <= 0) continue;
    const a = h.indexOf(high), b = h.indexOf(low), t = high / (high - low);
    const p = its[a].map((v, k) => v + t * (its[b][k] - v)); // on the edge a-b, where the height is 0
    const replaced = (list, at, value) => list.map((old, i) => i === at ? value : old);
    waiting.push([replaced(its, b, p), replaced(h, b, 0), t * part], [replaced(its, a, p), replaced(h, a, 0), (1 - t) * part]);
  }
  return found;
}

// ---- over points ----

// the mean of the best score, and how often each answer is the first of the best
function overPoints(answers, W) {
  const won = answers.map(() => 0), d = answers[0].length;
  let total = 0;
  for (let at = 0; at < W.length; at += d) {
    let best = -Infinity, who = 0;
    for (let i = 0; i < answers.length; i++) {
      let score = 0;
      for (let k = 0; k < d; k++) score += W[at + k] * answers[i][k];
      if (score > best) [best, who] = [score, i];
    }
    total += best;
    won[who]++;
  }
  const count = W.length / d;
  return [total / count, won.map((n) => n / count)];
}

const known = new Map();
// weights ~ Dir(alpha) at these points, one after the other
function weights(alpha, d, points) {
  const key = `${alpha} ${d} ${points.full[0].length}`;
  if (!known.has(key)) known.set(key, alpha === 1 ? gaps(points.flat, d) : gammas(points.full, d, alpha));
  return known.get(key);
}

// Sobol points in the unit cube. Each scrambling is its first point and one number for each binary digit that changes
// from a point to the next (whole numbers of 2^-30): its points follow by exclusive or.
function* cube(scramblings) {
  for (const [first, ...digits] of scramblings) {
    let x = first;
    for (let n = 1; ; n++) {
      yield x.map((v) => v / 2 ** BITS);
      if (n === 2 ** digits.length) break;
      const digit = digits[31 - Math.clz32(n & -n)];
      x = x.map((v, k) => v ^ digit[k]);
    }
  }
}

// alpha = 1: the gaps between d - 1 sorted uniforms are uniform on the simplex
function gaps(scramblings, d) {
  const out = [];
  for (const u of cube(scramblings)) {
    const sorted = [0, ...u.sort((a, b) => a - b), 1];
    for (let k = 0; k < d; k++) out.push(sorted[k + 1] - sorted[k]);
  }
  return Float64Array.from(out);
}

// normalised Gamma(alpha) variables are Dirichlet; in logs, since they underflow at small alpha
function gammas(scramblings, d, alpha) {
  const u = [];
  for (const point of cube(scramblings)) u.push(...point);
  const out = gammaQuantiles(alpha, u);
  for (let at = 0; at < out.length; at += d) {
    let top = -Infinity, total = 0;
    for (let k = at; k < at + d; k++) top = Math.max(top, out[k]);
    for (let k = at; k < at + d; k++) total += out[k] = Math.exp(out[k] - top);
    for (let k = at; k < at + d; k++) out[k] /= total;
  }
  return out;
}

// ---- special functions ----

const LANCZOS = [0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
function logGamma(x) { // x >= 0.5
  const t = x + 6.5, series = LANCZOS.slice(1).reduce((s, c, i) => s + c / (x + i), LANCZOS[0]);
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(series);
}

// the value of a continued fraction 1 / (b_0 + a_1 / (b_1 + ...)), by Lentz; terms(i) = [a_i, b_i]
function fraction(b, terms) {
  const away = (v) => Math.abs(v) < 1e-300 ? 1e-300 : v;
  let d = 1 / away(b), c = 1e300, h = d;
  for (let i = 1; i < 10_000; i++) {
    const [a, next] = terms(i);
    d = 1 / away(a * d + next);
    c = away(next + a / c);
    h *= d * c;
    if (Math.abs(d * c - 1) < 1e-16) break;
  }
  return h;
}

// the distribution function of Beta(a, b)
function beta(a, b, x) {
  if (x <= 0 || x >= 1) return Number(x >= 1);
  if (x > (a + 1) / (a + b + 2)) return 1 - beta(b, a, 1 - x);
  const logB = logGamma(a + 1) - Math.log(a) + logGamma(b + 1) - Math.log(b) - logGamma(a + b + 1) + Math.log(a + b);
  const front = Math.exp(a * Math.log(x) + b * Math.log1p(-x) - logB) / a;
  return front * fraction(1, (i) => {
    const m = Math.floor(i / 2), at = a + 2 * m;
    return [i % 2 ? -(a + m) * (a + b + m) * x / (at * (at + 1)) : m * (b - m) * x / ((at - 1) * at), 1];
  });
}

// log P and log Q = log(1 - P) of Gamma(a) at e^t, and the density of t
function gammaTails(a, t, atOne) {
  const x = Math.exp(t), density = Math.exp(a * t - x - atOne) * a;
  if (x < a + 1) {
    let term = 1, series = 1;
    for (let n = 1; term > 1e-17 * series; n++) series += term *= x / (a + n);
    const logP = a * t - x - atOne + Math.log(series);
    return [logP, Math.log(-Math.expm1(logP)), density];
  }
  const Q = density * fraction(x + 1 - a, (i) => [-i * (i - a), x + 2 * i + 1 - a]);
  return [Math.log1p(-Q), Math.log(Q), density];
}

// the logs t of the quantiles of Gamma(a), by Newton's method on log P, and above the median on log Q. Both are concave
// in t. In ascending order each root begins at the one before, which is near, and left of it.
function gammaQuantiles(a, quantiles) {
  const out = new Float64Array(quantiles.length), atOne = logGamma(a + 1);
  let t = -Infinity;
  for (const at of Uint32Array.from(quantiles.keys()).sort((i, j) => quantiles[i] - quantiles[j])) {
    const u = Math.max(quantiles[at], 2 ** -32), upper = Number(u > 0.5), goal = Math.log(upper ? 1 - u : u);
    t = Math.max(t, (Math.log(u) + atOne) / a); // P(e^t) is at most e^(a t) / Gamma(a + 1)
    for (let i = 0; i < 100; i++) {
      const found = gammaTails(a, t, atOne), step = (goal - found[upper]) * Math.exp(found[upper]) / found[2];
      t += upper ? -step : step;
      if (Math.abs(step) <= 1e-12 * Math.max(1, Math.abs(t))) break; // the next one would be its square
    }
    out[at] = t;
  }
  return out;
}

// ---- sets out of a front ----

function* subsets(items, m, from = 0) {
  if (!m) return yield [];
  for (let i = from; i <= items.length - m; i++) for (const rest of subsets(items, m - 1, i + 1)) yield [items[i], ...rest];
}

// orders of d columns: all of them, from d = 5 on d
function orders(d) {
  const all = (left) => left.length ? left.flatMap((k) => all(left.filter((l) => l !== k)).map((rest) => [k, ...rest])) : [[]];
  const range = Array.from({ length: d }, (_, k) => k);
  return d < 5 ? all(range) : range.map((i) => range.map((k) => (k - i + d) % d));
}

const TRIED = 5000; // subsets that are all tried; beyond, answers are added one by one, as vpo_lite/metrics.py does
const NEAR = 64; // that are compared once more where a sum over points may tell them apart, as there
// {indices, value}: the m rows of a pool with the highest set reward, of equals the first; fewer where more add nothing.
// worth(indices) is it; value(rows): the same of any rows, where it is a sum over points
function bestSubset(pool, m, worth, value) {
  const useful = nondominated(pool), size = Math.min(m, useful.length), scale = largest(pool), slack = 1e-12 * scale;
  let count = 1;
  for (let i = 0; i < size; i++) count *= (useful.length - i) / (i + 1);
  const first = (values, most = Math.max(...values)) => values.findIndex((v) => v >= most - slack);
  const fair = (indices) => sum(orders(pool[0].length).map((order) => value(indices.map((i) => order.map((k) => pool[i][k])))));
  const best = (candidates, closely) => {
    const values = candidates.map(worth);
    let at = first(values);
    if (closely) {
      const most = Math.max(...values), highest = values.map((_, i) => i).sort((i, j) => values[j] - values[i]);
      const near = highest.slice(0, NEAR).filter((i) => values[i] >= most - 1e-3 * scale).sort((i, j) => i - j);
      if (near.length > 1) at = near[first(near.map((i) => fair(candidates[i])))];
    }
    return { indices: candidates[at], value: values[at] };
  };
  if (count <= TRIED) return best([...subsets(useful, size)], value);
  let found = { indices: [] };
  for (let i = 0; i < size; i++) {
    const { indices } = found;
    found = best(useful.filter((j) => !indices.includes(j)).map((j) => [...indices, j].sort((a, b) => a - b)));
  }
  return found;
}

export default { integrate, nondominated, weights, bestSubset };
