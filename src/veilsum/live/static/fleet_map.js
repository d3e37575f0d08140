// The graph of the sites: SVG for few, canvas for many; one tab stop, arrow keys, names on hover.

import { element } from "/static/charts.js";
import { colourOf, epochsOf, isBehind, stateOf } from "/static/fleet_data.js";

export const MOST_SVG = 300;
const NAMED = 40; // sites whose names fit beside them
const PAD = 26;

export class FleetMap {
  constructor(box, tip, describe, onChoose) {
    this.box = box;
    this.tip = tip;
    this.describe = describe;
    this.onChoose = onChoose;
    this.at = -1;
    this.places = [];
    box.addEventListener("pointermove", (event) => this.#hover(event));
    box.addEventListener("pointerleave", () => this.#show(document.activeElement === box ? this.at : -1));
    box.addEventListener("pointerdown", (event) => this.#press(event));
    box.addEventListener("focus", () => this.#show(Math.max(this.at, 0)));
    box.addEventListener("blur", () => this.#show(-1));
    box.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.draw()).observe(box);
  }

  set(terms, sites, now, scale, by) {
    if (terms !== this.terms) {
      this.box.querySelectorAll("svg, canvas").forEach((old) => old.remove());
      this.svg = this.canvas = null;
      this.index = new Map(terms.labels.map((label, k) => [label, k]));
    }
    Object.assign(this, { terms, sites, now, scale, by });
    this.draw();
  }

  draw() {
    if (!this.terms) return;
    const { clientWidth: width, clientHeight: height } = this.box;
    const xs = this.terms.positions.map(([x]) => x);
    const ys = this.terms.positions.map(([, y]) => y);
    const range = (all) => [all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b))];
    const [[x0, x1], [y0, y1]] = [range(xs), range(ys)];
    const fit = Math.min((width - 2 * PAD) / (x1 - x0), (height - 2 * PAD) / (y1 - y0), 1e6); // all in a row: no height
    this.places = this.terms.positions.map(([x, y]) => [
      width / 2 + (x - (x0 + x1) / 2) * fit, height / 2 - (y - (y0 + y1) / 2) * fit,
    ]);
    this.radius = Math.max(1.6, Math.min(11, 0.32 * Math.sqrt((width * height) / this.terms.labels.length) / 2));
    if (this.terms.labels.length <= MOST_SVG) this.#drawSvg(width, height);
    else this.#drawCanvas(width, height);
  }

  #broken() {
    const found = new Set();
    for (const [label, site] of Object.entries(this.sites)) {
      const silent = stateOf(site) === "silent";
      const names = silent ? [] : Object.keys((site.links && site.links.broken) || {});
      for (const peer of names) {
        const pair = [this.index.get(label), this.index.get(peer)].sort((a, b) => a - b);
        found.add(pair.join("-"));
      }
    }
    return found;
  }

  #kind(label) {
    const site = this.sites[label];
    const state = stateOf(site);
    if (state === "silent" || state === "unheard") return { state, style: `state-${state}`, fill: null };
    if (this.by === "estimate") {
      const value = this.now.values.get(label);
      return { state, style: "", fill: Number.isFinite(value) ? colourOf(value, this.now, this.scale) : null };
    }
    const stage = this.by === "stage" && site.session ? `stage-${site.session.stage}` : `state-${state}`;
    return { state, style: stage, fill: null };
  }

  #drawSvg(width, height) {
    if (!this.svg) this.#makeSvg();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const broken = this.#broken();
    const { newest } = epochsOf(this);
    this.terms.edges.forEach(([a, b], k) => {
      const line = this.lines[k];
      const [[ax, ay], [bx, by]] = [this.places[a], this.places[b]];
      for (const [name, value] of Object.entries({ x1: ax, y1: ay, x2: bx, y2: by })) line.setAttribute(name, value.toFixed(1));
      line.setAttribute("class", broken.has(`${a}-${b}`) ? "edge broken" : "edge");
    });
    this.terms.labels.forEach((label, k) => {
      const node = this.nodes[k];
      const { state, style, fill } = this.#kind(label);
      node.setAttribute("cx", this.places[k][0].toFixed(1));
      node.setAttribute("cy", this.places[k][1].toFixed(1));
      node.setAttribute("r", this.radius.toFixed(1));
      node.setAttribute("class", `node ${state} ${style || (fill ? "" : "state-unheard")}${isBehind(this.sites[label], newest) ? " behind" : ""}`);
      node.dataset.label = label;
      node.dataset.state = state;
      if (fill) node.setAttribute("fill", fill);
      else node.removeAttribute("fill");
      if (this.names[k]) {
        this.names[k].setAttribute("x", this.places[k][0].toFixed(1));
        this.names[k].setAttribute("y", (this.places[k][1] + this.radius + 12).toFixed(1));
      }
    });
    this.#mark();
  }

  #makeSvg() {
    this.svg = element("svg", { "aria-hidden": "true" });
    this.lines = this.terms.edges.map(() => element("line", { class: "edge" }));
    this.nodes = this.terms.labels.map(() => element("circle", { class: "node" }));
    const named = this.terms.labels.length <= NAMED;
    this.names = named ? this.terms.labels.map((label) => element("text", {}, label)) : [];
    this.ring = element("circle", { class: "mark", r: 0 });
    this.svg.append(...this.lines, ...this.nodes, ...this.names, this.ring);
    this.box.append(this.svg);
  }

  #drawCanvas(width, height) {
    if (!this.canvas) {
      this.canvas = document.createElement("canvas");
      this.canvas.setAttribute("aria-hidden", "true");
      this.box.append(this.canvas);
    }
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const style = getComputedStyle(document.body);
    const colour = (name) => style.getPropertyValue(name).trim();
    this.#strokeEdges(pen, colour);
    const probes = new Map();
    const { newest } = epochsOf(this);
    this.terms.labels.forEach((label, k) => {
      const { state, style: named, fill } = this.#kind(label);
      const away = state === "silent" || state === "unheard";
      if (!fill && !probes.has(named)) probes.set(named, probe(named));
      pen.beginPath();
      pen.arc(...this.places[k], this.radius, 0, 2 * Math.PI);
      pen.fillStyle = away ? colour("--track") : fill || probes.get(named);
      pen.fill();
      if (isBehind(this.sites[label], newest)) {
        pen.strokeStyle = colour("--warn");
        pen.lineWidth = 2;
        pen.stroke();
      }
      if (away) this.#cross(pen, this.places[k], colour("--idle"));
    });
    const place = this.places[this.at];
    if (place) {
      pen.beginPath();
      pen.arc(...place, this.radius + 4, 0, 2 * Math.PI);
      pen.strokeStyle = colour("--accent");
      pen.lineWidth = 3;
      pen.stroke();
    }
  }

  #strokeEdges(pen, colour) {
    const broken = this.#broken();
    for (const isBroken of [false, true]) {
      pen.beginPath();
      pen.strokeStyle = colour(isBroken ? "--warn" : "--line");
      pen.lineWidth = isBroken ? 1.4 : 0.8;
      for (const [a, b] of this.terms.edges) {
        if (broken.has(`${a}-${b}`) === isBroken) {
          pen.moveTo(...this.places[a]);
          pen.lineTo(...this.places[b]);
        }
      }
      pen.stroke();
    }
  }

  #cross(pen, [x, y], colour) {
    const r = this.radius;
    pen.beginPath();
    pen.moveTo(x - r, y - r);
    pen.lineTo(x + r, y + r);
    pen.moveTo(x - r, y + r);
    pen.lineTo(x + r, y - r);
    pen.strokeStyle = colour;
    pen.lineWidth = 1.2;
    pen.stroke();
  }

  #mark() {
    const place = this.places[this.at];
    this.ring.setAttribute("r", place ? this.radius + 4 : 0);
    if (place) {
      this.ring.setAttribute("cx", place[0]);
      this.ring.setAttribute("cy", place[1]);
    }
  }

  #nearest(event) {
    const box = this.box.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let [best, closest] = [-1, (this.radius + 8) ** 2];
    this.places.forEach(([px, py], k) => {
      const square = (px - x) ** 2 + (py - y) ** 2;
      if (square < closest) [best, closest] = [k, square];
    });
    return best;
  }

  #hover(event) {
    const found = this.#nearest(event);
    if (found >= 0 || document.activeElement !== this.box) this.#show(found);
  }

  #press(event) {
    const found = this.#nearest(event);
    if (found >= 0) {
      this.#show(found);
      this.onChoose(this.terms.labels[found], false);
    }
  }

  #key(event) {
    const ways = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "Enter" && this.at >= 0) this.onChoose(this.terms.labels[this.at], true);
    if (event.key === "Escape") this.#show(-1);
    const way = ways[event.key];
    if (!way) return;
    event.preventDefault();
    const from = this.places[Math.max(this.at, 0)];
    let [best, least] = [-1, Infinity];
    this.places.forEach(([x, y], k) => {
      const [dx, dy] = [x - from[0], y - from[1]];
      const along = dx * way[0] + dy * way[1];
      const aside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
      if (k !== this.at && along > 0.5 && along + 2 * aside < least) [best, least] = [k, along + 2 * aside];
    });
    if (best >= 0) this.#show(best);
  }

  #show(k) {
    if (k !== this.at) {
      this.at = k;
      if (this.svg) this.#mark();
      else this.draw();
    }
    this.refreshTip();
  }

  refreshTip() {
    const place = this.places[this.at];
    this.tip.hidden = !place;
    if (!place) return;
    const text = this.describe(this.terms.labels[this.at]);
    if (this.tip.textContent !== text) this.tip.textContent = text;
    const { clientWidth: width, clientHeight: height } = this.box;
    const left = Math.min(Math.max(place[0] + 14, 0), Math.max(width - this.tip.offsetWidth - 4, 0));
    const above = place[1] + 14 + this.tip.offsetHeight > height;
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${above ? Math.max(place[1] - 14 - this.tip.offsetHeight, 0) : place[1] + 14}px`;
  }
}

// The colour that the style sheet gives a class, for a canvas.
function probe(named) {
  const svg = element("svg", { width: 0, height: 0 });
  const shape = element("circle", { class: named || "state-unheard" });
  svg.append(shape);
  document.body.append(svg);
  const found = getComputedStyle(shape).fill;
  svg.remove();
  return found;
}
