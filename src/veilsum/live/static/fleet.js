// The fleet page: takes the snapshot and the events, and shows them.

import { daysLeft, element, moment, number, rounded } from "/static/charts.js";
import { drawFan, drawGap } from "/static/fleet_charts.js";
import { STAGES, STATES, colourAt, empty, epochsOf, fold, mostCommon, overview, scaleOf, shown, stateOf, stateText, withUnit } from "/static/fleet_data.js";
import { FleetMap, MOST_SVG } from "/static/fleet_map.js";
import { SiteTable } from "/static/fleet_table.js";
import { connect, say, state } from "/static/stream.js";

const byId = (id) => document.getElementById(id);
const NAMES = 8; // that a line of text lists
const REPLAY = 5000; // milliseconds of a replay

let held = empty();
let colour = null; // "estimate", "state" or "stage"
let past = null; // the round that is looked at; null follows the latest
let chosen = null;
let drawn = 0;
let waiting = 0;
let playing = 0; // the frame that a replay waits for

const map = new FleetMap(byId("map"), byId("tip"), describe, choose);
const table = new SiteTable(byId("sites"), byId("filter"), byId("table-note"));

function some(names) {
  const listed = names.slice(0, NAMES).join(", ");
  return names.length > NAMES ? `${listed} and ${names.length - NAMES} more` : listed;
}

function describe(label) {
  const site = held.sites[label] || {};
  const { unit } = held.terms;
  const lines = [label, stateText(held.sites[label])];
  const value = overview(held, past).values.get(label);
  if (Number.isFinite(value)) {
    const bar = past === null && Number.isFinite(site.half_width) ? ` \u00b1 ${number(site.half_width, 3)}` : "";
    lines.push(withUnit(`${number(value, 6)}${bar}`, unit) + (past === null ? "" : ` after round ${past}`));
  }
  if (Number.isFinite(site.round)) lines.push(`${held.terms.masked ? "query" : "round"} ${site.round}`);
  if (site.session) lines.push(`attempt ${site.session.attempt}: ${site.session.stage}`);
  if (Number.isFinite(site.epoch) && site.epoch !== epochsOf(held).newest) lines.push(`epoch ${site.epoch}, others are in ${epochsOf(held).newest}`);
  if (site.links) lines.push(`${site.links.open} of ${site.links.total} links open`);
  return lines.join("\n");
}

function choose(label, scroll) {
  chosen = label;
  table.choose(label, scroll);
  draw();
}

function summary(now) {
  const { terms, sites } = held;
  const { unit } = terms;
  const all = terms.labels.map((label) => sites[label]);
  const latest = past === null ? now : overview(held);
  if (terms.estimates) {
    say("answer", Number.isFinite(latest.bar) && latest.mean !== null ? withUnit(`${rounded(latest.mean, latest.bar)} \u00b1 ${rounded(latest.bar, latest.bar)}`, unit) : shown(latest.mean, unit));
    say("answer-note", latest.mean === null ? "no estimate yet" : `mean of ${latest.values.size} sites${Number.isFinite(latest.bar) ? "; error bar 95%, of the readings\u2019 mean" : ""}`);
    say("spread", shown(latest.spread, unit, 3));
    const small = latest.finest !== null && latest.spread !== null && latest.spread < latest.finest;
    say("spread-note", latest.spread === null ? "" : small ? "less than the error bar" : "largest minus smallest estimate");
  } else {
    say("answer", "withheld");
    say("answer-note", "no guarantee covers showing it");
    say("spread", "withheld");
  }
  say("round-name", terms.masked ? "Query" : "Round");
  say("round", terms.rounds ? `${latest.round} of ${terms.rounds}` : `${latest.round}`);
  const behind = Number.isFinite(latest.slowest) && latest.slowest < latest.round;
  say("round-note", behind ? `slowest site at ${latest.slowest}` : Number.isFinite(latest.slowest) ? "all sites are there" : "");
  const heard = all.filter((site) => site && site.received_at && !site.silent_since).length;
  const silent = all.filter((site) => site && site.silent_since).length;
  const watched = all.filter((site) => !(site && site.unwatched)).length;
  say("heard", `${heard} of ${watched}`);
  say("heard-note", silent ? `${silent} silent` : heard === watched ? "none silent" : "waiting for the others");
  const { newest, behind: old, heard: told } = epochsOf(held);
  say("epoch", `${newest}`);
  const late = old.length ? `${old.length} of ${told} behind: ${some(old)}` : "";
  say("epoch-note", late || (told ? `${terms.labels.length} members` : "")).classList.toggle("flag", Boolean(late));
  const budgets = all.map((site) => site && site.budget).filter(Boolean);
  const most = budgets.reduce((a, b) => (a === null || b.spent > a.spent ? b : a), null);
  say("epsilon", most ? `${number(most.spent, 4)} of ${number(most.epsilon, 4)}` : heard ? "no budget" : "unknown");
  const each = most && (most.unit === "event" ? "on one reading" : most.period ? `in this ${most.period}` : most.unit === "window" ? "in a window" : "on all readings");
  say("epsilon-note", most ? `${each}, where it is most` : "");
  const kinds = { starting: "", running: "good", ended: "good", failed: "bad" };
  if (held.run) state("run", held.run.text, kinds[held.run.state]);
  byId("run").hidden = !held.run;
  document.title = latest.mean !== null && terms.estimates ? `${shown(latest.mean, unit)} \u2013 ${terms.name}` : terms.name;
}

function problems() {
  const { terms, sites } = held;
  const found = [];
  const where = (test) => terms.labels.filter((label) => sites[label] && test(sites[label], label));
  const silent = where((site) => site.silent_since);
  if (silent.length) {
    const since = silent.map((label) => sites[label].silent_since).reduce((a, b) => Math.min(a, b));
    const why = (label) => (sites[label].silent_reason ? `${label} (${sites[label].silent_reason})` : label);
    found.push(["bad", `${silent.length} silent`, `${some(silent.map(why))}; since ${moment(since)}`]);
  }
  const unheard = terms.labels.filter((label) => stateOf(sites[label]) === "unheard" && !(sites[label] && sites[label].unwatched));
  if (unheard.length) found.push(["warn", `${unheard.length} not heard yet`, some(unheard)]);
  const { newest, behind } = epochsOf(held);
  if (behind.length) found.push(["bad", `${behind.length} behind epoch ${newest}`, `${some(behind.map((label) => `${label} (epoch ${sites[label].epoch})`))}: the roll-out has not reached them; copy epoch.json to the place that [membership] in their agent.toml names`]);
  if (newest > terms.epoch) found.push(["warn", `this page follows epoch ${terms.epoch}`, `a site is in epoch ${newest}: give epoch.json to whoever watches, too`]);
  const other = where((site) => site.manifest && site.manifest !== terms.manifest && (site.epoch ?? terms.epoch) === terms.epoch);
  if (other.length) found.push(["bad", `${other.length} with another manifest`, `${some(other)}: they agreed on other terms, and exchange nothing with the rest`]);
  const common = mostCommon(Object.values(sites).map((site) => site.version));
  const versions = where((site) => site.version && site.version !== common);
  if (versions.length) found.push(["warn", `${versions.length} with another version than ${common}`, some(versions.map((label) => `${label} (${sites[label].version})`))]);
  const expiring = where((site) => Number.isFinite(site.certificate_days) && site.certificate_days < 30);
  const soon = expiring.some((label) => sites[label].certificate_days < 7);
  if (expiring.length) found.push([soon ? "bad" : "warn", `${expiring.length} with a certificate that expires within 30 days`, some(expiring.map((label) => `${label} (${daysLeft(sites[label].certificate_days)})`))]);
  const cut = where((site) => ["running", "done"].includes(site.state) && !site.silent_since && site.links && Object.keys(site.links.broken).length);
  if (cut.length) found.push(["warn", `${cut.length} with links that are not open`, some(cut.map((label) => `${label} (${Object.entries(sites[label].links.broken).slice(0, 3).map(([peer, how]) => `${peer} ${how}`).join(", ")})`))]);
  const failed = where((site) => site.state === "done" && site.reason && !["rounds", "sum", "tolerance", "readings", "left"].includes(site.reason));
  if (failed.length) found.push(["bad", `${failed.length} ended without a result`, some(failed.map((label) => `${label} (${sites[label].reason})`))]);
  return found;
}

function attention() {
  const found = problems();
  const list = byId("attention");
  const text = JSON.stringify(found);
  if (list.dataset.text === text) return;
  list.dataset.text = text;
  list.replaceChildren(...(found.length ? found : [["good", "", "Nothing needs attention."]]).map(([kind, what, who]) => {
    const item = document.createElement("li");
    item.dataset.state = kind;
    const strong = document.createElement("strong");
    strong.textContent = what;
    item.append(strong, what ? `: ${who}` : who);
    return item;
  }));
}

function colourChoices() {
  const { terms } = held;
  const names = terms.masked ? ["stage", "estimate", "state"] : ["estimate", "state"];
  const allowed = names.filter((name) => terms.estimates || name !== "estimate");
  if (!allowed.includes(colour)) [colour] = allowed;
  const box = byId("colours");
  if (box.dataset.names === allowed.join()) return;
  box.dataset.names = allowed.join();
  box.querySelectorAll("label").forEach((old) => old.remove());
  for (const name of allowed) {
    const label = document.createElement("label");
    const input = document.createElement("input");
    Object.assign(input, { type: "radio", name: "colour", value: name, checked: name === colour });
    input.addEventListener("change", () => {
      colour = name;
      draw();
    });
    label.append(input, ` ${name}`);
    box.append(label);
  }
}

function legend(now, scale) {
  const box = byId("legend");
  const { terms, sites } = held;
  const parts = [];
  if (colour === "estimate") parts.push(...estimateLegend(now, scale));
  const list = document.createElement("ul");
  const stages = colour === "stage";
  const kinds = stages ? STAGES : colour === "state" ? STATES.slice(0, 4) : [];
  for (const kind of kinds) {
    const count = terms.labels.filter((label) => {
      const site = sites[label];
      if (["silent", "unheard"].includes(stateOf(site))) return false;
      return stages ? site.session && site.session.stage === kind : stateOf(site) === kind;
    }).length;
    if (count) list.append(swatch(`${stages ? "stage" : "state"}-${kind}`, `${kind}: ${count}`));
  }
  const silent = terms.labels.filter((label) => stateOf(sites[label]) === "silent").length;
  const unheard = terms.labels.filter((label) => stateOf(sites[label]) === "unheard").length;
  const hatched = terms.labels.length <= MOST_SVG ? "hatched, dashed outline" : "crossed";
  if (silent) list.append(swatch("state-silent", `silent (${hatched}): ${silent}`));
  if (unheard) list.append(swatch("state-unheard", `not heard yet: ${unheard}`));
  parts.push(list);
  const placed = document.createElement("p");
  placed.textContent = terms.placed === "map" ? "Positions are those of the network." : "Positions are a layout of the links, not places.";
  parts.push(placed);
  box.replaceChildren(...parts);
}

function estimateLegend(now, scale) {
  const text = document.createElement("p");
  const { unit } = held.terms;
  if (!scale.known) {
    text.textContent = "No estimate yet.";
    return [text];
  }
  const width = Math.max(byId("legend").clientWidth, 200);
  const svg = element("svg", { viewBox: `0 0 ${width} 38`, role: "img" });
  const blend = element("linearGradient", { id: "blend" });
  for (let k = 0; k <= 10; k += 1) blend.append(element("stop", { offset: k / 10, "stop-color": colourAt(k / 10) }));
  const defs = element("defs");
  defs.append(blend);
  svg.append(defs, element("rect", { x: 1, y: 4, width: width - 2, height: 12, fill: "url(#blend)", class: "frame" }));
  const middle = (scale.low + scale.high) / 2;
  const ends = scale.high > scale.low ? [[1, scale.low, "start"], [width - 1, scale.high, "end"]] : [];
  for (const [x, value, anchor] of [...ends, [width / 2, middle, "middle"]]) {
    svg.append(element("text", { x, y: 32, "text-anchor": anchor }, shown(value, unit)));
  }
  svg.append(element("title", {}, `colours from ${shown(scale.low, unit)} to ${shown(scale.high, unit)}`));
  const from = held.rounds.length ? ` of the rounds that are drawn, from ${held.rounds[0].round} on` : "";
  const span = `Colours span all estimates${from}: ${shown(scale.low, unit)} to ${shown(scale.high, unit)}. `;
  const when = past === null ? "now" : `after round ${past}`;
  const differ = now.spread === null ? "" : `Sites differ by ${shown(now.spread, unit, 3)} ${when}`;
  text.textContent = span + (scale.equal ? `${differ}, less than the error bar of \u00b1 ${shown(now.finest, unit, 3)}: they are drawn alike.` : differ && `${differ}.`);
  text.id = "scale-note";
  return [svg, text];
}

function swatch(named, text) {
  const item = document.createElement("li");
  const svg = element("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" });
  svg.append(element("circle", { cx: 7, cy: 7, r: 6, class: named }));
  item.append(svg, text);
  return item;
}

function sessions() {
  const { terms, sites } = held;
  byId("sessions-panel").hidden = !terms.masked;
  if (!terms.masked) return;
  const groups = new Map();
  for (const label of terms.labels) {
    const site = sites[label];
    const at = site && site.session;
    if (at) {
      const key = at.stage === "waiting" && !at.query ? "0 0" : `${at.query} ${at.attempt}`;
      if (!groups.has(key)) groups.set(key, { query: at.query, attempt: at.attempt, stages: new Map() });
      const stages = groups.get(key).stages;
      const stage = site.silent_since ? "silent" : at.stage;
      stages.set(stage, [...(stages.get(stage) || []), label]);
    }
  }
  const ordered = [...groups.values()].sort((a, b) => b.query - a.query || b.attempt - a.attempt);
  byId("sessions").replaceChildren(...(ordered.length ? ordered.flatMap((group) => session(group, terms)) : ["No session yet."]));
}

function session({ query, attempt, stages }, terms) {
  const title = document.createElement("h3");
  title.textContent = query ? `Query ${query}${terms.rounds ? ` of ${terms.rounds}` : ""}, ${attempt ? `attempt ${attempt} of ${terms.attempts}` : "no session yet"}` : "Before the first query";
  const width = 100;
  const svg = element("svg", { viewBox: `0 0 ${width} 10`, preserveAspectRatio: "none", role: "img" });
  const list = document.createElement("ul");
  list.className = "keys";
  const entries = [...STAGES, "silent"].filter((stage) => stages.has(stage)).map((stage) => [stage, stages.get(stage)]);
  const largest = entries.reduce((a, [, names]) => Math.max(a, names.length), 0);
  let at = 0;
  for (const [stage, names] of entries) {
    const size = (width * names.length) / terms.labels.length;
    const named = stage === "silent" ? "state-stopped" : `stage-${stage}`;
    svg.append(element("rect", { x: at, y: 0, width: size, height: 10, class: named }));
    at += size;
    const who = names.length < largest || names.length <= 3 ? ` (${some(names)})` : "";
    list.append(swatch(named, `${stage}: ${names.length}${who}`));
  }
  svg.append(element("title", {}, entries.map(([stage, names]) => `${stage} ${names.length}`).join(", ")));
  return [title, svg, list];
}

function replayBar() {
  const rows = held.fan ? held.rounds : [];
  byId("replay").hidden = rows.length < 3 || !held.terms.estimates;
  if (rows.length < 3) return;
  const bar = byId("scrub");
  bar.min = rows[0].round;
  bar.max = rows[rows.length - 1].round;
  if (past === null) bar.value = bar.max;
  say("scrub-round", past ?? rows[rows.length - 1].round);
}

function nearestRound(value) {
  const rows = held.rounds.map((row) => row.round);
  return rows.reduce((a, b) => (Math.abs(b - value) < Math.abs(a - value) ? b : a), rows[0]);
}

function terms() {
  const known = held.terms;
  say("guarantee", known.guarantee || "Nothing is guaranteed.");
  say("manifest", known.manifest || "unknown");
  const former = known.former.map(([label, epoch]) => `${label} (since epoch ${epoch})`);
  say("membership", `epoch ${known.epoch}: ${known.labels.length} members${former.length ? `; no member any more: ${some(former)}` : ""}`);
  say("quorum", known.quorum ? `readings of ${known.quorum} of ${known.labels.length} members` : "unknown");
  const [low, high] = known.bounds;
  say("bounds", low === null && high === null ? "none" : `${low === null ? "-\u221e" : number(low)} to ${high === null ? "\u221e" : shown(high, known.unit)}`);
  byId("expected-key").hidden = !known.expected.length;
  const barred = known.expected.length > 0 || held.rounds.some((row) => row.half_width > 0);
  byId("reported-key").hidden = !held.rounds.some((row) => row.half_width > 0);
  const sum = known.masked && known.rounds === 1;
  byId("gap-panel").hidden = sum;
  say("fan-title", known.masked ? "Estimate of every site" : "Estimates of all sites");
  const more = known.components > 1 ? ` The first of ${known.components} components is shown.` : "";
  const lines = held.fan === null && held.rounds.length ? "Bands: all sites, the middle 80% and the middle half; the line is the median." : "One line for each site.";
  say("fan-note", sum ? `All sites compute the same sum.${more}` : `${lines}${barred ? " Green: mean and error bar." : ""}${more}`);
}

function draw() {
  waiting = 0;
  drawn = performance.now();
  if (!held.terms) return;
  if (past !== null && !(held.fan && held.fan[past])) past = null;
  const now = overview(held, past);
  const scale = scaleOf(held, now);
  colourChoices();
  summary(now);
  attention();
  map.set(held.terms, held.sites, now, scale, colour);
  map.refreshTip();
  legend(now, scale);
  replayBar();
  sessions();
  drawFan(byId("fan"), held, now, chosen, past);
  drawGap(byId("gap"), held);
  table.set(held);
  terms();
}

function soon() {
  if (waiting) return;
  const pause = held.terms && held.terms.labels.length > MOST_SVG ? 500 : 100;
  waiting = setTimeout(() => requestAnimationFrame(draw), Math.max(0, pause - (performance.now() - drawn)));
}

function replay() {
  const rows = held.rounds.map((row) => row.round);
  const began = performance.now();
  byId("play").disabled = true;
  const step = (at) => {
    const fraction = Math.min((at - began) / REPLAY, 1);
    // Early rounds change most, so that they are given more of the time.
    past = fraction < 1 ? nearestRound(rows[0] + (rows[rows.length - 1] - rows[0]) * fraction ** 2) : null;
    draw();
    if (fraction < 1) playing = requestAnimationFrame(step);
    else stopReplay();
  };
  playing = requestAnimationFrame(step);
}

function stopReplay() {
  cancelAnimationFrame(playing);
  byId("play").disabled = false;
}

byId("play").addEventListener("click", replay);
byId("follow").addEventListener("click", () => {
  stopReplay();
  past = null;
  draw();
});
byId("scrub").addEventListener("input", (event) => {
  stopReplay();
  past = nearestRound(Number(event.target.value));
  draw();
});
addEventListener("resize", soon);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", soon);

connect((kind, data) => {
  if (kind === "terms") past = chosen = null;
  held = fold(held, kind, data);
  soon();
}, ["terms", "run", "sites", "rounds"]);
