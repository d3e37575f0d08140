// The page of one site: its status over time, and the events of its log.
import { barMeter, daysLeft, lineChart, moment as momentAt, number, rounded } from "./charts.js";
import { connect, say, state } from "./stream.js";

const STATES = { gathering: "warn", running: "good", done: "good", stopped: "" };
const LINKS = {
  open: ["good", "connected, and takes part"],
  done: ["good", "has its estimate"],
  opening: ["warn", "connected; both ends agree on the session"],
  silent: ["warn", "connected, and does not answer in time"],
  down: ["", "cannot be reached"],
  dropped: ["", "no longer waited for"],
  left: ["", "has left"],
  mismatched: ["bad", "follows another manifest, such as that of another epoch: compare the files of both sites"],
  forked: ["bad", "speaks with two histories: stop all but one copy of it"],
};
const GONE = {
  left: "Left, and handed over", lost: "Ended with a part that nobody has", former: "No member any more",
};
const LEVELS = { error: "bad", warning: "warn" };
const STAGES = {
  waiting: "waits for the next query", opened: "the session is open", prepared: "keys are exchanged",
  sent: "its masked value is sent", withdrawn: "it withdrew from this attempt", concluded: "the sum is known",
};

let shown = { terms: {}, status: null, history: [], log: [] };
let ahead = 0; // milliseconds by which this machine's clock is ahead of the agent's

const now = () => Date.now() - ahead;
const list = (names, more = 0) => names.join(", ") + (more > 0 ? ` and ${more} more` : "");
const show = (id, text) => { say(id, text).hidden = !text; };

function cells(row, texts) {
  for (const text of texts) row.insertCell().textContent = text;
  return row;
}

function facts(id, pairs) {
  const place = document.getElementById(id);
  place.replaceChildren();
  for (const [name, text] of pairs) {
    const term = document.createElement("dt");
    const value = document.createElement("dd");
    term.textContent = name;
    value.textContent = text;
    place.append(term, value);
  }
}

function ago(seconds) {
  if (seconds < 0.5) return "just now";
  const parts = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
  const [size, name] = parts.find(([length]) => seconds >= length) || [1, "second"];
  const count = Math.max(Math.floor(seconds / size), 1);
  return `${count} ${name}${count === 1 ? "" : "s"} ago`;
}

const moment = (seconds) => momentAt(seconds, now());

function drawEstimate() {
  const { status, terms, history } = shown;
  const unit = (status && status.unit) || "";
  const place = document.getElementById("component");
  const count = status ? status.estimate.length : 0;
  const chosen = Math.min(Number(place.value) || 0, Math.max(count - 1, 0));
  document.getElementById("component-row").hidden = count < 2;
  if (place.options.length !== count) {
    place.replaceChildren();
    for (let k = 0; k < count; k += 1) place.append(new Option(String(k + 1), String(k)));
    place.value = String(chosen);
  }
  let text = "none yet";
  if (status && (status.withheld || []).includes("estimate")) {
    text = "withheld: no guarantee covers showing it";
  } else if (count) {
    const width = status.half_width[chosen];
    const around = width === null ? "" : ` ± ${rounded(width, width)}`;
    text = `${rounded(status.estimate[chosen], width)}${around}${unit && ` ${unit}`}`;
  }
  say("estimate", text);
  document.title = `${count ? text : "no estimate"} · ${terms.agent}`;
  if (!status) return;
  const said = [];
  if (count) said.push(`${Math.round(status.confidence * 100)}% interval for the mean of the readings in it`);
  if (status.session) said.push(`query ${status.session.query}`);
  else said.push(terms.rounds ? `round ${status.round} of ${terms.rounds}` : `round ${status.round}`);
  if (count && !status.complete) said.push(`below the quorum of ${status.coverage.quorum}: not a result`);
  said.push(`as of ${moment(status.time)}`);
  say("estimate-note", said.join(", "));
  const points = history.filter((at) => at.estimate.length > chosen);
  lineChart(document.getElementById("estimate-chart"), {
    series: [{ name: "estimate", points: points.map((at) => [at.time * 1000, at.estimate[chosen]]) }],
    band: points.filter((at) => at.half_width[chosen] !== null).map((at) => [
      at.time * 1000, at.estimate[chosen] - at.half_width[chosen], at.estimate[chosen] + at.half_width[chosen],
    ]),
    xLabel: "time", yLabel: "estimate and interval", unit, time: true, recent: true,
  });
}

function drawState() {
  const { status, terms } = shown;
  if (!status) return;
  const why = status.state === "done" ? ` (${status.reason})` : "";
  state("state", status.state + why, STATES[status.state]);
  const covered = status.coverage;
  const lost = status.left_out || {};
  barMeter(document.getElementById("coverage-meter"), {
    parts: [{ value: covered.contributing }], total: covered.members,
    label: `${covered.contributing} of ${covered.members} members are in the estimate`,
  });
  const enough = covered.contributing >= covered.quorum ? "" : "; too few so far";
  say("coverage", `${covered.contributing} of ${covered.members} members, quorum ${covered.quorum}${enough}`);
  const out = new Set(covered.missing);
  const inside = terms.members.filter((name) => !out.has(name));
  const named = !lost.missing && covered.contributing > 0; // who is in it follows from a whole list only
  say("members", named ? list(inside.slice(0, 60), covered.contributing - Math.min(inside.length, 60)) : "");
  show("missing", covered.missing.length && covered.contributing
    ? `Not in it: ${list(covered.missing.slice(0, 20), covered.missing.length + (lost.missing || 0) - 20)}` : "");
  show("absent", covered.absent.length
    ? `Not there: ${list(covered.absent.slice(0, 20), covered.absent.length + (lost.absent || 0) - 20)}` : "");
  const counts = Object.entries(status.readings).filter(([, count]) => count);
  say("reading-counts", counts.map(([name, count]) => `${count} ${name.replace("-", " ")}`).join(", ") || "none so far");
  const days = status.certificate_days;
  if (days === null) state("certificate", "none: this agent runs without certificates", "warn");
  else if (days < 0) state("certificate", "expired: renew it", "bad");
  else {
    const kind = days < 7 ? "bad" : days < 30 ? "warn" : "good";
    const advice = kind === "good" ? "" : ": renew it";
    state("certificate", `${daysLeft(days)} left${advice}`, kind);
  }
  say("version", status.version);
}

function drawMembership() {
  const { status, terms } = shown;
  say("manifest", terms.manifest);
  if (!status) return;
  const { coverage, links } = status;
  say("epoch", `epoch ${status.epoch}, ${coverage.members} member${coverage.members === 1 ? "" : "s"}`);
  const more = status.left_out || {};
  for (const [how, text] of Object.entries(GONE)) {
    const names = coverage[how] || [];
    show(how, names.length ? `${text}: ${list(names.slice(0, 20), names.length + (more[how] || 0) - 20)}` : "");
  }
  const others = Object.keys(links).filter((peer) => links[peer] === "mismatched");
  show("differs", others.length
    ? `Under other terms, perhaps another epoch: ${list(others.slice(0, 20), others.length - 20)}. Has the roll-out reached every site? The log names the field that differs.` : "");
}

function drawBudget() {
  const { status, history } = shown;
  if (!status) return;
  const { budget } = status;
  for (const id of ["budget-meter", "budget-legend", "budget-chart"]) {
    document.getElementById(id).toggleAttribute("hidden", !budget);
  }
  if (!budget) {
    say("budget", "no guarantee, so nothing is spent");
    facts("budget-facts", []);
    return;
  }
  const perReading = budget.unit === "event"; // every reading has a budget of its own
  const { epsilon, spent, reserved, remaining } = budget;
  const per = { stream: budget.period ? "" : "all readings", window: "a window of readings", event: "each reading by itself" }[budget.unit];
  const period = budget.period && `each ${budget.period}`;
  say("budget", perReading ? `ε = ${number(epsilon)} for each reading` : `${number(remaining)} of ε = ${number(epsilon)} left`);
  const used = perReading ? spent : Math.max(epsilon - remaining - reserved, 0);
  const part = perReading ? "spent on the dearest reading" : "spent";
  say("budget-spent", part);
  barMeter(document.getElementById("budget-meter"), {
    parts: [{ value: used, style: 0 }, { value: reserved, style: 1 }], total: epsilon,
    label: `${number(used)} of ${number(epsilon)} ${part}, ${number(reserved)} reserved`,
  });
  const each = status.attempts
    ? `${number(status.epsilon)} a query, all attempts together`
    : `${number(status.epsilon)} a reading`;
  const refills = budget.refills_at ? `from ${moment(budget.refills_at)}` : budget.period ? "nothing to refill yet" : "never";
  facts("budget-facts", [
    ["for", [per, period].filter(Boolean).join(", ")],
    ["spent", `${number(spent)}${perReading ? " on the dearest reading" : ""}; ${number(budget.spent_in_all)} on all readings since the start`],
    ["reserved", reserved ? `${number(reserved)} for an open query` : "nothing"],
    ["next reading", `may cost ${number(remaining)}`],
    ["costs", each],
    ["refills", perReading ? "the next reading has its own" : refills],
  ]);
  const known = history.filter((at) => at.remaining !== null);
  const curve = (name) => ({ name, points: known.map((at) => [at.time * 1000, at[name]]) });
  lineChart(document.getElementById("budget-chart"), {
    series: perReading ? [curve("spent_in_all")] : [curve("remaining"), curve("spent")],
    xLabel: "time", yLabel: perReading ? "ε spent on all readings together" : "ε: left (full line) and spent (dashed)", time: true, zero: true,
  });
}

function drawLinks() {
  const { status } = shown;
  if (!status) return;
  const all = Object.entries(status.links);
  const open = all.filter(([, word]) => word === "open" || word === "done").length;
  const more = (status.left_out || {}).links || 0;
  say("links-note", `${open} of ${all.length + more} open${more ? `; ${more} are not listed` : ""}`);
  const place = document.getElementById("links");
  place.replaceChildren();
  for (const [peer, word] of all) {
    const [kind, text] = LINKS[word] || ["", ""];
    const row = cells(place.insertRow(), [peer, "", text]);
    const mark = document.createElement("span");
    mark.className = "state";
    mark.dataset.state = kind;
    mark.textContent = word;
    row.cells[1].append(mark);
  }
  const { session } = status;
  document.getElementById("session-part").hidden = !session;
  if (session) {
    facts("session", [
      ["query", session.query || "none yet"],
      ["attempt", session.attempt ? `${session.attempt} of ${status.attempts}, view ${session.view}` : "none yet"],
      ["stage", `${session.stage}: ${STAGES[session.stage] || ""}`],
      ["records", `${session.records} held, ${session.bytes_sent} bytes sent`],
    ]);
  }
}

function drawLog() {
  const place = document.getElementById("log");
  if (!place) return; // beyond loopback
  place.replaceChildren();
  for (const line of shown.log) {
    const about = line.peer && !line.text.includes(line.peer) ? `${line.peer}: ` : "";
    const more = line.omitted ? ` (${line.omitted} like this were left out)` : "";
    const row = cells(place.insertRow(), [moment(line.time), "", line.kind, `${about}${line.text}${more}`]);
    const mark = document.createElement("span");
    mark.className = "state";
    mark.dataset.state = LEVELS[line.level] || "";
    mark.textContent = line.level;
    row.cells[1].append(mark);
  }
}

function drawAges() {
  const { status } = shown;
  if (!status) return;
  const at = status.last_reading;
  say("reading-age", at === null ? "none so far" : ago(Math.max(now() / 1000 - at, 0)));
}

function draw() {
  drawEstimate();
  drawState();
  drawMembership();
  drawBudget();
  drawLinks();
  drawAges();
  say("guarantee", shown.status ? shown.status.guarantee : "");
}

function received(kind, data) {
  if (kind === "beat") {
    ahead = Date.now() - data.time * 1000;
    show("problems", data.problems.join("; "));
    drawAges();
  } else if (kind === "snapshot") {
    shown = data;
    draw();
    drawLog();
  } else if (kind === "status") {
    shown.status = data.status;
    shown.history.push(data.point);
    if (shown.history.length > shown.terms.most_points) {
      shown.history = shown.history.filter((_, k) => k % 2 === 0 || k === shown.history.length - 1);
    }
    draw();
  } else if (kind === "line") {
    shown.log.unshift(data);
    shown.log.length = Math.min(shown.log.length, shown.terms.most_lines);
    drawLog();
  }
}

document.getElementById("component").addEventListener("change", drawEstimate);
let waiting = 0;
addEventListener("resize", () => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => { drawEstimate(); drawBudget(); });
});
setInterval(drawAges, 1000);
connect(received, ["status", "line"]);
