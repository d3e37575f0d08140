// The fan of estimates, and disagreement with the error bar over rounds.

import { element, number, ticks } from "/static/charts.js";
import { WITHHELD, expectedAt } from "/static/fleet_data.js";

const MARGIN = { left: 58, right: 12, top: 22, bottom: 34 };

// Rounds of a run with an end are drawn on a logarithmic axis: the first change most.
function axes(svg, { xs, ys, yName, xName, log = false, logX = false, title }) {
  const width = Math.max(svg.clientWidth || 500, 200);
  const height = Math.max(svg.clientHeight || 220, 120);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.replaceChildren(element("title", {}, title));
  const along = logX ? (x) => Math.log10(Math.max(x, 1)) : (x) => x;
  const [start, end] = xs.map(along);
  const px = (x) => MARGIN.left + ((along(x) - start) / (end - start || 1)) * (width - MARGIN.left - MARGIN.right);
  const measure = log ? Math.log10 : (y) => y;
  const [low, high] = ys.map(measure);
  const py = (y) => MARGIN.top + (1 - (measure(y) - low) / (high - low || 1)) * (height - MARGIN.top - MARGIN.bottom);
  const rows = log ? decades(ys[0], ys[1]) : ticks(ys[0], ys[1], 4);
  for (const y of rows) {
    svg.append(element("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: py(y), y2: py(y) }));
    svg.append(element("text", { x: MARGIN.left - 6, y: py(y) + 4, "text-anchor": "end" }, number(y, 4)));
  }
  for (const x of logX ? steps(Math.max(xs[0], 1), xs[1], px) : wholeTicks(xs[0], xs[1], Math.floor(width / 90))) {
    svg.append(element("text", { x: px(x), y: height - MARGIN.bottom + 15, "text-anchor": "middle" }, number(x, 6)));
  }
  svg.append(element("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: height - MARGIN.bottom, y2: height - MARGIN.bottom }));
  svg.append(element("text", { x: (MARGIN.left + width - MARGIN.right) / 2, y: height - 4, "text-anchor": "middle" }, xName));
  svg.append(element("text", { x: 4, y: 13 }, yName));
  return { px, py, top: MARGIN.top, bottom: height - MARGIN.bottom };
}

function decades(low, high) {
  const found = [];
  const step = Math.max(Math.ceil((Math.log10(high) - Math.log10(low)) / 5), 1);
  for (let k = Math.ceil(Math.log10(low) - 1e-9); k <= Math.log10(high) + 1e-9; k += step) found.push(10 ** k);
  return found;
}

const wholeTicks = (low, high, wanted) => ticks(low, high, Math.min(wanted, Math.max(high - low, 1))).filter(Number.isInteger);

// Round numbers on a logarithmic axis, as many for each power of ten as have room beside one another.
function steps(low, high, px) {
  const apart = (x, k, all) => !k || px(x) - px(all[k - 1]) > (String(x).length + String(all[k - 1]).length) * 3.5 + 6;
  let found = [];
  for (const parts of [[1, 2, 5], [1, 3], [1]]) {
    found = [];
    for (let k = Math.floor(Math.log10(low)); 10 ** k <= high; k += 1) found.push(...parts.map((part) => part * 10 ** k));
    found = found.filter((x) => x >= low && x <= high);
    if (found.every(apart)) break;
  }
  return found;
}

const isLong = (terms, xs) => !terms.masked && terms.rounds > 0 && xs[1] >= 20 * Math.max(xs[0], 1);

function nothing(svg, text) {
  const [width, height] = [svg.clientWidth || 500, svg.clientHeight || 220];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(element("title", {}, text), element("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, text));
}

const path = (points) => points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");

function ribbon(rows, px, py, low, high) {
  return path([...rows.map((row) => [px(row.round), py(high(row))]), ...[...rows].reverse().map((row) => [px(row.round), py(low(row))])]);
}

// One line for each site; bands of quantiles where there are too many for that.
export function drawFan(svg, held, now, chosen, cursor) {
  const { terms, rounds: rows, fan } = held;
  if (!terms.estimates) return nothing(svg, WITHHELD);
  if (!rows.length) return nothing(svg, "no estimate yet");
  const least = rows.reduce((a, row) => Math.min(a, row.least), Infinity);
  const most = rows.reduce((a, row) => Math.max(a, row.most), -Infinity);
  const bar = Number.isFinite(now.bar) ? now.bar : 0;
  const margin = Math.max((most - least) * 0.06, rows.length === 1 ? 1.3 * bar : 0, Math.abs(most) * 1e-6) || 1;
  const one = rows.length === 1 ? 1 : 0;
  const xs = [rows[0].round - one, rows[rows.length - 1].round + one];
  const unit = terms.unit ? ` (${terms.unit})` : "";
  const last = rows[rows.length - 1];
  const { px, py, top, bottom } = axes(svg, {
    xs, logX: isLong(terms, xs), ys: [least - margin, most + margin], yName: `estimate${unit}`, xName: terms.masked ? "query" : "round",
    title: `Estimates after round ${last.round}: ${number(last.least)} to ${number(last.most)}${unit}`,
  });
  const clip = (y) => Math.min(Math.max(y, least - margin), most + margin);
  const width = (row) => row.half_width ?? expectedAt(terms, row.round);
  const barred = rows.filter((row) => Number.isFinite(width(row)));
  if (barred.length > 1) {
    const low = (row) => clip(row.mean - width(row));
    const high = (row) => clip(row.mean + width(row));
    svg.append(element("polygon", { class: "bar", points: ribbon(barred, px, py, low, high) }));
    for (const edge of [low, high]) {
      svg.append(element("polyline", { class: "edge-of-bar", points: path(barred.map((row) => [px(row.round), py(edge(row))])) }));
    }
  }
  if (fan) drawLines(svg, held, px, py, chosen);
  else drawBands(svg, rows, px, py);
  if (rows.length === 1) drawPoint(svg, last, width(last), px, py);
  if (cursor !== null) svg.append(element("line", { class: "cursor", x1: px(cursor), x2: px(cursor), y1: top, y2: bottom }));
}

function drawLines(svg, { terms, rounds, fan }, px, py, chosen) {
  const order = terms.labels.map((label, k) => [label, k]).sort(([a], [b]) => (a === chosen) - (b === chosen));
  for (const [label, k] of order) {
    const points = rounds.filter((row) => fan[row.round] && Number.isFinite(fan[row.round][k])).map((row) => [px(row.round), py(fan[row.round][k])]);
    svg.append(element("polyline", { class: label === chosen ? "one chosen" : "one", points: path(points) }));
  }
}

function drawBands(svg, rows, px, py) {
  const layers = [["outer", (r) => r.least, (r) => r.most], ["outer", (r) => r.bands[0], (r) => r.bands[4]], ["inner", (r) => r.bands[1], (r) => r.bands[3]]];
  for (const [named, low, high] of layers) svg.append(element("polygon", { class: named, points: ribbon(rows, px, py, low, high) }));
  svg.append(element("polyline", { class: "middle", points: path(rows.map((row) => [px(row.round), py(row.bands[2])])) }));
}

function drawPoint(svg, row, width, px, py) {
  const x = px(row.round);
  if (Number.isFinite(width)) {
    svg.append(element("line", { class: "reported", x1: x, x2: x, y1: py(row.mean - width), y2: py(row.mean + width) }));
  }
  svg.append(element("circle", { class: "dot-reported", cx: x, cy: py(row.mean), r: 5 }));
}

export function drawGap(svg, held) {
  const { terms, rounds: rows } = held;
  const spread = rows.filter((row) => row.most > row.least).map((row) => [row.round, row.most - row.least]);
  const reported = rows.filter((row) => row.half_width > 0).map((row) => [row.round, row.half_width]);
  const seen = rows.length ? rows[rows.length - 1].round : 0;
  const expected = terms.expected.filter(([round]) => round <= Math.max(seen, 1));
  const all = [...spread, ...reported, ...expected];
  if (!terms.estimates) return nothing(svg, WITHHELD);
  if (!all.length) return nothing(svg, "nothing yet");
  const low = all.reduce((a, [, y]) => Math.min(a, y), Infinity);
  const high = all.reduce((a, [, y]) => Math.max(a, y), -Infinity);
  const first = all.reduce((a, [x]) => Math.min(a, x), Infinity);
  const last = all.reduce((a, [x]) => Math.max(a, x), first + 1);
  const { px, py } = axes(svg, {
    xs: [first, last], logX: isLong(terms, [first, last]), ys: [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high * 1.0001))], log: true,
    yName: terms.unit ? `(${terms.unit})` : "", xName: terms.masked ? "query" : "round",
    title: `Disagreement ${spread.length ? number(spread[spread.length - 1][1]) : 0}, error bar ${reported.length ? number(reported[reported.length - 1][1]) : "unknown"}`,
  });
  for (const [named, points] of [["expected", expected], ["reported", reported], ["spread", spread]]) {
    if (points.length > 1) svg.append(element("polyline", { class: named, points: path(points.map(([x, y]) => [px(x), py(y)])) }));
  }
  for (const [x, y] of reported.length <= 40 ? reported : []) {
    svg.append(element("circle", { class: "dot-reported", cx: px(x), cy: py(y), r: 3 }));
  }
}
