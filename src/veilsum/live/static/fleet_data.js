// The snapshot of the fleet page, brought up to date by events, and what follows from it.
// `fold` does what fold in live/fleet.py does.

import { moment, number } from "/static/charts.js";

export const STATES = ["gathering", "running", "done", "stopped", "silent", "unheard"];
export const STAGES = ["waiting", "opened", "prepared", "sent", "withdrawn", "concluded"];
export const WITHHELD = "withheld: no guarantee covers showing it";

export function empty() {
  return { terms: null, run: null, sites: {}, stride: 1, detail: 0, rounds: [], fan: null };
}

export function fold(held, kind, data) {
  if (kind === "snapshot") return { ...empty(), ...data };
  if (kind === "sites") {
    for (const [label, fields] of Object.entries(data.sites)) {
      held.sites[label] = { ...held.sites[label], ...fields };
    }
  } else if (kind === "rounds") {
    const rows = new Map([...held.rounds, ...data.rounds].map((row) => [row.round, row]));
    const known = [...rows.values()].filter((row) => row.count > 0).sort((a, b) => a.round - b.round);
    const last = known.length ? known[known.length - 1].round : 0;
    Object.assign(held, { stride: data.stride, detail: data.detail });
    held.rounds = known.filter((row) => isKept(row.round, data) || row.round === last);
    if (data.fan) {
      const all = { ...held.fan, ...data.fan };
      held.fan = Object.fromEntries(held.rounds.filter((row) => all[row.round]).map((row) => [row.round, all[row.round]]));
    }
  } else if (kind === "terms") {
    if (held.terms && held.terms.manifest !== data.manifest) { // a later epoch: rounds begin anew
      const kept = data.labels.filter((label) => held.sites[label]);
      held.sites = Object.fromEntries(kept.map((label) => [label, held.sites[label]]));
      Object.assign(held, { stride: 1, detail: 0, rounds: [], fan: {} });
    }
    held.terms = data;
  } else if (kind === "run") {
    held[kind] = data;
  }
  return held;
}

// Whether a round has a row, as is_kept in live/fleet_history.py.
function isKept(round, { stride, detail }) {
  let step = stride;
  while (step > 1 && round < detail * step) step /= 2;
  return round % step === 0;
}

export function stateOf(site) {
  if (!site) return "unheard";
  if (site.former) return "former";
  if (site.silent_since) return "silent";
  return STATES.includes(site.state) ? site.state : "unheard";
}

export function stateText(site) {
  const state = stateOf(site);
  if (state === "former") return `no member since epoch ${site.former}`;
  if (state === "silent") return `silent since ${moment(site.silent_since)}${site.silent_reason ? `: ${site.silent_reason}` : ""}`;
  if (state === "unheard") return site && site.unwatched ? "not watched" : "not heard yet";
  return site.reason && state === "done" && !["rounds", "sum", "tolerance"].includes(site.reason)
    ? `done: ${site.reason}` : state;
}

export function withUnit(text, unit) {
  return unit ? `${text} ${unit}` : text;
}

// The error bar that the terms give after a round, between the rounds that it is known for.
export function expectedAt(terms, round) {
  const known = terms.expected;
  if (!known.length) return null;
  if (round <= known[0][0]) return known[0][1];
  for (let k = 1; k < known.length; k += 1) {
    const [[a, low], [b, high]] = [known[k - 1], known[k]];
    if (round <= b) return low + ((high - low) * (round - a)) / (b - a);
  }
  return known[known.length - 1][1];
}

function median(values) {
  const sorted = values.filter((value) => Number.isFinite(value)).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : null;
}

export function mostCommon(values) {
  const counts = new Map();
  for (const value of values) if (value) counts.set(value, (counts.get(value) || 0) + 1);
  return [...counts.entries()].sort((a, b) => b[1] - a[1]).map(([value]) => value)[0] || null;
}

// The newest epoch that the terms or a site know of, and the sites that are in an earlier one. A site
// that has ended adopts a later one when it is started again.
export function epochsOf({ terms, sites }) {
  const known = terms.labels.map((label) => sites[label] && sites[label].epoch).filter(Number.isFinite);
  const newest = known.reduce((a, b) => Math.max(a, b), terms.epoch);
  return { newest, heard: known.length, behind: terms.labels.filter((label) => isBehind(sites[label], newest)) };
}

// Whether what a site says belongs to the epoch that the page follows: rounds count from 1 in each.
function isPresent(site, terms) {
  return (site.epoch ?? terms.epoch) === terms.epoch;
}

export function isBehind(site, newest) {
  return Boolean(site) && Number.isFinite(site.epoch) && site.epoch < newest && !["done", "stopped"].includes(site.state);
}

// What all sites together say at present, or said after a round that is looked at again.
export function overview(held, shownRound = null) {
  const { terms, sites } = held;
  const values = new Map();
  const past = shownRound !== null && held.fan ? held.fan[shownRound] : null;
  terms.labels.forEach((label, index) => {
    const site = sites[label] || {};
    const value = past ? past[index] : site.silent_since || !isPresent(site, terms) ? null : site.estimate;
    if (Number.isFinite(value)) values.set(label, value);
  });
  const numbers = [...values.values()];
  const least = numbers.reduce((a, b) => Math.min(a, b), Infinity);
  const most = numbers.reduce((a, b) => Math.max(a, b), -Infinity);
  const rounds = terms.labels.map((label) => sites[label] && isPresent(sites[label], terms) ? sites[label].round : null).filter(Number.isFinite);
  const round = shownRound ?? rounds.reduce((a, b) => Math.max(a, b), 0);
  const reported = median(terms.labels.map((label) => (sites[label] || {}).half_width));
  const bar = past ? expectedAt(terms, round) : reported ?? expectedAt(terms, round);
  const last = terms.expected.length ? terms.expected[terms.expected.length - 1][1] : null;
  const finest = [reported, last].filter(Number.isFinite).reduce((a, b) => Math.min(a, b), Infinity);
  return {
    values, least, most, bar, round,
    mean: numbers.length ? numbers.reduce((a, b) => a + b, 0) / numbers.length : null,
    spread: numbers.length ? most - least : null,
    slowest: rounds.reduce((a, b) => Math.min(a, b), Infinity),
    finest: Number.isFinite(finest) ? finest : null, // the smallest error bar: differences below it say nothing
  };
}

// The range that colours stand for: of all estimates so far. Sites that differ by less than the
// error bar have one colour.
export function scaleOf(held, now) {
  let [low, high] = [now.least, now.most];
  for (const row of held.rounds) {
    low = Math.min(low, row.least);
    high = Math.max(high, row.most);
  }
  const equal = now.finest !== null && now.spread !== null && now.spread < now.finest;
  return { low, high, equal, known: Number.isFinite(low) };
}

const RAMP = [[68, 1, 84], [65, 68, 135], [42, 120, 142], [34, 168, 132], [122, 209, 81], [253, 231, 37]];

export function colourAt(fraction) {
  const place = Math.min(Math.max(fraction, 0), 1) * (RAMP.length - 1);
  const k = Math.min(Math.floor(place), RAMP.length - 2);
  const mixed = RAMP[k].map((value, i) => Math.round(value + (RAMP[k + 1][i] - value) * (place - k)));
  return `rgb(${mixed.join(",")})`;
}

export function colourOf(value, now, scale) {
  const shown = scale.equal ? now.mean : value;
  return colourAt(scale.high > scale.low ? (shown - scale.low) / (scale.high - scale.low) : 0.5);
}

export function shown(value, unit, digits = 4) {
  return Number.isFinite(value) ? withUnit(number(value, digits), unit) : "unknown";
}
