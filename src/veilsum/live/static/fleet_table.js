// The table of all sites: sorted by any column, filtered by name or state, bounded on the page.

import { daysLeft, moment, number } from "/static/charts.js";
import { epochsOf, isBehind, mostCommon, stateOf, stateText } from "/static/fleet_data.js";

const MOST_ROWS = 400;

const COLUMNS = [
  { name: "site", sort: null },
  { name: "state", text: (s) => stateText(s), sort: (s) => stateText(s) },
  { name: "round", masked: "query", number: true, text: (s) => whole(s.round), sort: (s) => s.round },
  { name: "estimate", number: true, unit: true, text: (s) => some(s.estimate, 6), sort: (s) => s.estimate },
  { name: "error bar", number: true, unit: true, text: (s) => (Number.isFinite(s.half_width) ? `\u00b1 ${number(s.half_width, 3)}` : ""), sort: (s) => s.half_width },
  { name: "readings of", number: true, text: (s) => (s.coverage ? `${s.coverage.contributing} of ${s.coverage.members}` : ""), sort: (s) => s.coverage && s.coverage.contributing },
  { name: "\u03b5 spent", number: true, text: (s) => (s.budget && !perReading(s) ? some(s.budget.spent, 4) : ""), sort: (s) => s.budget && s.budget.spent },
  { name: "\u03b5 left", number: true, text: (s) => (s.budget && !perReading(s) ? some(s.budget.remaining, 4) : ""), sort: (s) => s.budget && s.budget.remaining },
  { name: "\u03b5 of a reading", number: true, text: (s) => (s.budget && perReading(s) ? `${some(s.budget.spent, 4)} of ${some(s.budget.epsilon, 4)}` : ""), sort: (s) => s.budget && s.budget.spent },
  { name: "\u03b5 in all", number: true, text: (s) => (s.budget ? some(s.budget.spent_in_all, 4) : ""), sort: (s) => s.budget && s.budget.spent_in_all },
  { name: "epoch", number: true, text: (s) => whole(s.epoch), sort: (s) => s.epoch, flag: (s, { newest }) => isBehind(s, newest) },
  { name: "links open", number: true, text: (s) => (s.links ? `${s.links.open} of ${s.links.total}` : ""), sort: (s) => s.links && s.links.open - s.links.total, flag: (s) => s.links && s.links.open < s.links.total },
  { name: "session", text: (s) => (s.session ? `query ${s.session.query}, attempt ${s.session.attempt}, ${s.session.stage}` : ""), sort: (s) => s.session && s.session.stage },
  { name: "certificate", number: true, text: (s) => (Number.isFinite(s.certificate_days) ? daysLeft(s.certificate_days) : ""), sort: (s) => s.certificate_days, flag: (s) => Number.isFinite(s.certificate_days) && s.certificate_days < 30 },
  { name: "last reading", text: (s) => (s.last_reading ? moment(s.last_reading) : ""), sort: (s) => s.last_reading },
  { name: "version", text: (s) => s.version || "", sort: (s) => s.version, flag: (s, { common }) => Boolean(s.version) && s.version !== common },
  { name: "last seen", text: (s) => (s.received_at ? moment(s.received_at) : ""), sort: (s) => s.received_at },
];

const perReading = (s) => s.budget.unit === "event"; // a budget of its own for each: nothing is left of it
const whole = (value) => (Number.isFinite(value) ? String(value) : "");
const some = (value, digits) => (Number.isFinite(value) ? number(value, digits) : "");

export class SiteTable {
  constructor(table, filter, note) {
    this.table = table;
    this.filter = filter;
    this.note = note;
    this.sorted = 0;
    this.down = false;
    this.rows = new Map();
    this.chosen = null;
    filter.addEventListener("input", () => this.draw());
  }

  set(held) {
    this.held = held;
    this.draw();
  }

  choose(label, scroll) {
    this.chosen = label;
    this.filter.value = "";
    this.draw();
    const row = this.rows.get(label);
    if (row && scroll) {
      row.scrollIntoView({ block: "nearest" });
      row.querySelector("th").focus();
    }
  }

  draw() {
    const { terms, sites } = this.held;
    const known = COLUMNS.filter((column, k) => k < 2 || terms.labels.some((label) => sites[label] && column.text(sites[label]) !== ""));
    this.#head(known, terms);
    const norm = { common: mostCommon(Object.values(sites).map((site) => site.version)), newest: epochsOf(this.held).newest };
    const wanted = this.filter.value.trim().toLowerCase();
    const former = terms.former.map(([label, epoch]) => [label, { former: epoch }]);
    const found = [...terms.labels.map((label) => [label, sites[label] || {}]), ...former].map(([label, site], k) => ({ label, k, site }))
      .filter(({ label, site }) => !wanted || label.toLowerCase().includes(wanted) || stateText(site).includes(wanted));
    const shown = this.#order(found).slice(0, MOST_ROWS);
    const body = this.table.tBodies[0];
    const rows = shown.map((entry) => this.#row(entry, known, norm, terms));
    if (rows.length !== body.rows.length || rows.some((row, k) => body.rows[k] !== row)) body.replaceChildren(...rows);
    const text = shown.length < terms.labels.length + former.length ? `${shown.length} of ${terms.labels.length + former.length} sites are shown` : "";
    if (this.note.textContent !== text) this.note.textContent = text;
  }

  #order(found) {
    const { sort } = COLUMNS[this.sorted];
    const sign = this.down ? -1 : 1;
    if (!sort) return this.down ? found.reverse() : found;
    const empty = (value) => value === null || value === undefined || value === "";
    return found.sort((a, b) => {
      const [x, y] = [sort(a.site), sort(b.site)];
      if (empty(x) || empty(y)) return empty(x) - empty(y) || a.k - b.k;
      if (x === y) return a.k - b.k;
      return x < y ? -sign : sign;
    });
  }

  #head(known, { unit, masked }) {
    const row = this.table.tHead.rows[0];
    const names = known.map((column) => column.name).join("|");
    if (this.names !== names) {
      this.names = names;
      this.rows.clear();
      row.replaceChildren(...known.map((column) => {
        const cell = document.createElement("th");
        const button = document.createElement("button");
        cell.scope = "col";
        if (column.number) cell.className = "number";
        button.type = "button";
        const name = (masked && column.masked) || column.name;
        button.textContent = column.unit && unit ? `${name} (${unit})` : name;
        button.addEventListener("click", () => this.#sortBy(COLUMNS.indexOf(column)));
        cell.append(button);
        return cell;
      }));
    }
    known.forEach((column, k) => {
      const sorted = COLUMNS.indexOf(column) === this.sorted;
      const direction = this.down ? "descending" : "ascending";
      if (sorted) row.cells[k].setAttribute("aria-sort", direction);
      else row.cells[k].removeAttribute("aria-sort");
    });
  }

  #sortBy(k) {
    this.down = this.sorted === k ? !this.down : false;
    this.sorted = k;
    this.draw();
  }

  #row({ label, site }, known, norm, terms) {
    let row = this.rows.get(label);
    if (!row) {
      row = document.createElement("tr");
      row.dataset.label = label;
      known.forEach((column, k) => {
        const cell = document.createElement(k ? "td" : "th");
        if (!k) {
          cell.scope = "row";
          cell.tabIndex = -1;
        }
        if (column.number) cell.className = "number";
        row.append(cell);
      });
      this.rows.set(label, row);
    }
    row.className = `${stateOf(site)}${label === this.chosen ? " chosen" : ""}`;
    known.forEach((column, k) => {
      const cell = row.cells[k];
      let text = k ? column.text(site) : label;
      let flagged = Boolean(column.flag && column.flag(site, norm));
      if (!k && site.manifest && site.manifest !== terms.manifest && (site.epoch ?? terms.epoch) === terms.epoch) {
        flagged = true;
        text = `${label} (other manifest ${site.manifest.slice(0, 8)})`;
      }
      if (cell.textContent !== text) cell.textContent = text;
      cell.classList.toggle("flag", flagged);
    });
    return row;
  }
}
