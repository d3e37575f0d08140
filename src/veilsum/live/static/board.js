// The page of a board: one event has everything, and everything is drawn again from it.

import { clock, date, element, lineChart, moment, rounded } from "/static/charts.js";
import { connect, say } from "/static/stream.js";

const NAMED = 40; // sites whose names fit beside them; of more those that are not well, if they are few
const FEW = 12;
const STATES = { // in the order of their gravity; the last one is that of a site that is well
  forked: "signed two posts as one", "left-out": "left out of the answer", silent: "silent",
  absent: "never heard", behind: "behind", missing: "not in yet", in: "in",
};
const BAD = ["forked", "two-epochs", "stopped", "rolled-back", "withheld", "left-out"];
let latest = null;
let chosen = "";

const byId = (id) => document.getElementById(id);
const made = (tag, text = "", kind = "") => {
  const found = document.createElement(tag);
  found.textContent = text;
  if (kind) found.className = kind;
  return found;
};

function length(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

// A time without seconds, with its day unless that is the day of the status.
function brief(seconds, now) {
  const [at, today] = [new Date(seconds * 1000), new Date(now * 1000)];
  const day = at.toDateString() === today.toDateString() ? "" : `${date(at)} `;
  return `${day}${clock(at.getTime(), false)}`;
}

// A number with half the width of its interval, or with both ends where these are not even.
function withBar(value, low, high, unit) {
  if (value === null) return "too few to say";
  if (low === null || high === null) return `${rounded(value, 0)} ${unit}`.trim();
  const width = high - low;
  const even = Math.abs(value - low - (high - value)) <= 0.05 * width;
  const bar = even ? `± ${rounded((high - low) / 2, width / 2)}` : `(${rounded(low, width)} to ${rounded(high, width)})`;
  return `${rounded(value, width / 2)} ${bar} ${unit}`.trim();
}

const answerOf = (found) => found.find((one) => !one.detail);

function stateOf(member, question) {
  if (member.forks.length) return "forked";
  if (member.left_out) return "left-out";
  if (!member.heard) return "absent";
  if (member.silent) return "silent";
  const release = question && member.releases.find((one) => one.terms === question.terms);
  if (release && release.behind) return "behind";
  if (question && question.missing.includes(member.name)) return "missing";
  return "in";
}

// Those who need a person first, else in their order.
function byGravity(members, question) {
  const order = Object.keys(STATES);
  return [...members].sort((a, b) => order.indexOf(stateOf(a, question)) - order.indexOf(stateOf(b, question)));
}

function drawChoice(status) {
  const list = byId("question");
  const terms = status.questions.map((one) => one.terms);
  if (list.dataset.terms !== terms.join()) {
    list.replaceChildren(...status.questions.map((one) => {
      const option = made("option", `${one.label || one.title}, ${one.protocol}`);
      option.value = one.terms;
      return option;
    }));
    list.dataset.terms = terms.join();
  }
  if (!terms.includes(chosen)) chosen = (status.questions.find((one) => one.found.length) || { terms: terms[0] }).terms || "";
  list.value = chosen;
  byId("choice").hidden = terms.length < 2;
}

function drawTiles(status, question) {
  const found = question && answerOf(question.found);
  const single = found && found.values.length === 1;
  say("answer-name", question ? question.label || question.title : "Answer");
  say("asked", question ? `Asked by ${question.asker}; ${question.protocol}, epsilon ${question.epsilon}${question.every ? `, every ${question.every}` : ""}` : "");
  say("answer", !question ? "no question" : !found ? "waiting" : single ? withBar(found.values[0], found.low[0], found.high[0], found.unit) : `${found.values.length} components`);
  say("answer-note", question ? question.problem || question.stage || (question.every ? "all slots" : "") : "");
  const slot = question && question.latest;
  const last = slot && answerOf(slot.found);
  say("slot", last && last.values.length === 1 ? withBar(last.values[0], last.low[0], last.high[0], last.unit) : "none");
  say("slot-note", slot ? `${brief(slot.start, status.at)} to ${brief(slot.end, status.at)}, ${slot.sites} sites` : "");
  say("covers", question ? `${question.inside} of ${question.of}` : "unknown");
  say("covers-note", "sites");
  say("epoch", status.epoch || "none");
  say("epoch-note", `${status.members.filter((one) => one.roles.length).length} members`);
  const forks = status.members.reduce((sum, one) => sum + one.forks.length, 0);
  say("forks", forks || "none").classList.toggle("flag", forks > 0);
  say("forks-note", forks ? status.members.filter((one) => one.forks.length).map((one) => one.name).join(", ") : "");
  const [budget] = status.budgets;
  say("budget", budget ? `${rounded(budget.left, budget.limit / 10)} left` : "none");
  say("budget-note", budget ? `of ${budget.limit} per ${budget.per}${budget.until ? `, until ${date(new Date(budget.until * 1000))}` : ""}` : "");
}

function drawAttention(status) {
  const lines = status.attention.map((one) => {
    const line = made("li", "", BAD.includes(one.kind) ? "bad" : "");
    line.append(made("strong", one.who), ` ${one.what}`);
    if (one.remedy) line.append(made("span", ` \u2192 ${one.remedy}`, "remedy"));
    return line;
  });
  byId("attention").replaceChildren(...(lines.length ? lines : [made("li", "nothing needs a person", "good")]));
}

// A circle, or a square for what is wrong: colours are never alone.
function shape(x, y, r, state) {
  if (state === "forked" || state === "left-out") {
    return `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`;
  }
  return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
}

function drawMap(status, question, places) {
  const map = byId("map");
  const { clientWidth: width, clientHeight: height } = map;
  const sites = status.members.filter((one) => places[one.name]);
  const pad = sites.length <= NAMED ? 30 : 12;
  const side = Math.min(width, height) - 2 * pad;
  const r = Math.max(3, Math.min(12, (0.3 * side) / Math.sqrt(sites.length || 1)));
  map.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const drawn = [];
  const names = [];
  const counts = {};
  const odd = sites.filter((one) => stateOf(one, question) !== "in").length;
  for (const one of byGravity(sites, question).reverse()) {
    const [u, v] = places[one.name];
    const [x, y] = [width / 2 + (u - 0.5) * side, height / 2 - (v - 0.5) * side];
    const state = stateOf(one, question);
    counts[state] = (counts[state] || 0) + 1;
    const node = element("path", { class: `node ${state}`, d: shape(x, y, r, state), "data-site": one.name, "data-state": state });
    node.append(element("title", {}, `${one.name}: ${STATES[state]}`));
    drawn.push(node);
    if (sites.length <= NAMED || (state !== "in" && odd <= FEW)) names.push(element("text", { x, y: y + r + 13 }, one.name));
  }
  map.replaceChildren(...drawn, ...names);
  byId("legend").replaceChildren(...Object.keys(STATES).filter((state) => counts[state]).map((state) => {
    const key = made("li");
    const mark = element("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" });
    mark.append(element("path", { class: `node ${state}`, d: shape(10, 10, 7, state) }));
    key.append(mark, `${counts[state]} ${STATES[state]}`);
    return key;
  }));
}

function drawClosing(question, history) {
  const found = question && answerOf(question.found);
  const many = Boolean(found && found.values.length > 1);
  byId("closing").toggleAttribute("hidden", many);
  byId("closing-note").hidden = many;
  byId("components-part").hidden = !many;
  if (many) {
    byId("components").tBodies[0].replaceChildren(...found.values.map((value, k) => {
      const row = made("tr");
      row.append(made("td", found.labels[k] || String(k + 1)));
      const width = found.high[k] - found.low[k];
      row.append(made("td", value === null ? "too few to say" : rounded(value, width), "number"));
      row.append(made("td", value === null ? "" : `${rounded(found.low[k], width)} to ${rounded(found.high[k], width)}`, "number"));
      return row;
    }));
    return;
  }
  const rows = (question && history[question.terms]) || [];
  const at = ([time]) => time * 1000;
  const slots = rows.filter((row) => row[5] !== null).map((row) => [at(row), row[5]]);
  lineChart(byId("closing"), {
    series: [{ name: "answer", points: rows.map((row) => [at(row), row[1]]) },
      ...(slots.length ? [{ name: "newest slot", points: slots }] : [])],
    band: rows.map((row) => [at(row), row[2], row[3]]),
    xLabel: "time", yLabel: found ? found.quantity : "answer", unit: found ? found.unit : "", time: true,
  });
  say("closing-note", `Since this page was opened: the answer with its 95% interval${slots.length ? "; dashed, the newest slot" : ""}.`);
}

function drawMembers(status, question) {
  const wanted = byId("filter").value.trim().toLowerCase();
  const rows = [];
  for (const one of byGravity(status.members, question)) {
    const site = one.roles.includes("site");
    const state = stateOf(one, question);
    const words = !one.roles.length ? "left" : state === "in" && !site ? "well" : STATES[state];
    if (wanted && !`${one.name} ${words}`.toLowerCase().includes(wanted)) continue;
    const release = question && one.releases.find((each) => each.terms === question.terms);
    const row = made("tr");
    const name = made("th", one.own ? `${one.name} (this one)` : one.name);
    name.scope = "row";
    row.append(
      name, made("td", words, state === "in" || !one.roles.length ? "" : "flag"), made("td", one.roles.join(", ")),
      made("td", !release ? "" : release.end ? brief(release.end, status.at) : "posted", "number"),
      made("td", one.age === null ? "" : `${length(one.age)} old`, "number"),
      made("td", site ? String(Number(one.epsilon.toPrecision(4))) : "", "number"),
      made("td", one.rekeyed ? `${one.rekeyed + 1}, newest ${one.key.slice(0, 8)}` : one.key.slice(0, 8)),
    );
    rows.push(row);
  }
  byId("members").tBodies[0].replaceChildren(...rows);
}

function drawFacts(status) {
  say("member", status.member ? `${status.member}, key ${status.key}` : "not admitted yet");
  say("stores", status.stores.map((one) => `${one.address}${one.problem ? `: ${one.problem}` : ""}`).join("; "));
  say("witnesses", status.witnesses);
  say("digest", status.digest);
  say("authority", status.authority);
}

function draw() {
  if (!latest) return;
  const { status, history, places } = latest;
  document.title = status.fleet;
  document.querySelector("h1").textContent = status.fleet;
  document.querySelector(".top .faint").textContent = `epoch ${status.epoch}${status.member ? `, as ${status.member}` : ""}, ${moment(status.at)}`;
  drawChoice(status);
  const question = status.questions.find((one) => one.terms === chosen);
  drawTiles(status, question);
  drawAttention(status);
  drawMap(status, question, places);
  drawClosing(question, history);
  drawMembers(status, question);
  drawFacts(status);
}

byId("question").addEventListener("change", (event) => {
  chosen = event.target.value;
  draw();
});
byId("filter").addEventListener("input", draw);
addEventListener("resize", draw);
connect((kind, data) => {
  const found = kind === "snapshot" ? data.board : kind === "board" ? data : null;
  if (!found) return;
  latest = found;
  draw();
}, ["board"]);
