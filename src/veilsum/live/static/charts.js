// Charts as SVG, drawn by setting attributes: no library, and nothing that a strict policy forbids.
//
//   lineChart(svg, {series: [{name, points: [[x, y], ...]}], band: [[x, low, high], ...],
//                   xLabel, yLabel, unit, time, zero, recent})
//       zero: the axis y begins at 0; recent: it shows the band of the later half, and cuts the rest
//   barMeter(svg, {parts: [{value, label}], total, label})

const SPACE = "http://www.w3.org/2000/svg";
const MARGIN = { left: 62, right: 14, top: 24, bottom: 38 };

export function element(tag, attributes = {}, text = "") {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  return made;
}

// Round numbers that divide a range into about `wanted` parts.
export function ticks(low, high, wanted) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((size) => size >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) {
    found.push(Number((k * step).toPrecision(12)));
  }
  return found;
}

// A number with as many digits as tell it from its neighbours on an axis.
export function number(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "unknown";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return Number(value.toPrecision(Math.max(digits - 1, 2))).toExponential();
  return String(Number(value.toPrecision(Math.max(digits, Math.ceil(Math.log10(size))))));
}

// A value to the digit that its interval leaves: more would look surer than it is.
export function rounded(value, width) {
  if (!(width > 0) || !Number.isFinite(width)) return number(value, 5);
  const places = Math.min(Math.max(1 - Math.floor(Math.log10(width)), 0), 12);
  return value.toFixed(places);
}

export function clock(milliseconds, seconds = true) {
  const at = new Date(milliseconds);
  const two = (value) => String(value).padStart(2, "0");
  const text = `${two(at.getHours())}:${two(at.getMinutes())}`;
  return seconds ? `${text}:${two(at.getSeconds())}` : text;
}

export function date(at) {
  const two = (value) => String(value).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

// A time in seconds of the epoch, with its day unless that is today: a site may be silent for days.
export function moment(seconds, now = Date.now()) {
  const at = new Date(seconds * 1000);
  const day = at.toDateString() === new Date(now).toDateString() ? "" : `${date(at)} `;
  return `${day}${clock(at.getTime())}`;
}

// What is left of a certificate.
export function daysLeft(days) {
  if (days < 0) return "expired";
  const whole = Math.floor(days);
  return `${whole} day${whole === 1 ? "" : "s"}`;
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 604800].map((value) => value * 1000);

function timeTicks(low, high, wanted) {
  const rough = (high - low) / Math.max(wanted, 1);
  const step = STEPS.find((size) => size >= rough) || STEPS[STEPS.length - 1];
  const shift = new Date(low).getTimezoneOffset() * 60000; // round in the reader's own time
  const found = [];
  for (let at = Math.ceil((low - shift) / step) * step + shift; at <= high; at += step) found.push(at);
  return { found, step };
}

function timeText(at, step) {
  if (step < 60000) return clock(at);
  if (step < 86400000) return clock(at, false);
  const day = new Date(at);
  return date(day).slice(5);
}

// The range of some numbers, with a margin; one number has a range around it, or zero in it.
function range(values, zero = false) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (Number.isFinite(value)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (low > high) return null;
  if (zero && low >= 0 && high > 0) return [0, high * 1.06];
  if (low === high) {
    const around = Math.abs(low) * 0.05 || 1;
    return [low - around, high + around];
  }
  const margin = (high - low) * 0.06;
  return [low - margin, high + margin];
}

export function lineChart(svg, options) {
  const { series, band = [], xLabel = "", yLabel = "", unit = "", time = false, zero = false, recent = false } = options;
  const width = Math.max(svg.clientWidth || 600, 200);
  const height = Math.max(svg.clientHeight || 260, 120);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.replaceChildren();
  const lines = series.map((one) => ({ ...one, points: one.points.filter(([, y]) => Number.isFinite(y)) }));
  const shade = band.filter(([, low, high]) => Number.isFinite(low) && Number.isFinite(high));
  const xs = range([...lines.flatMap((one) => one.points.map(([x]) => x)), ...shade.map(([x]) => x)]);
  const late = recent ? shade.slice(Math.floor(shade.length / 2)) : shade;
  const ys = range([...lines.flatMap((one) => one.points.map(([, y]) => y)),
    ...late.flatMap(([, low, high]) => [low, high])], zero);
  const title = [yLabel, unit && `in ${unit}`, xLabel && `over ${xLabel}`].filter(Boolean).join(" ");
  if (!xs || !ys) {
    svg.append(element("title", {}, `${title}: nothing yet`));
    svg.append(element("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "nothing yet"));
    return;
  }
  const all = lines.flatMap((one) => one.points.map(([x]) => x)).concat(shade.map(([x]) => x));
  const first = all.reduce((a, b) => Math.min(a, b));
  const last = all.reduce((a, b) => Math.max(a, b));
  const alone = time ? [first - 30000, first + 30000] : xs; // one point: a minute around it
  const [x0, x1] = last > first ? [first, last] : alone;
  const inner = { w: width - MARGIN.left - MARGIN.right, h: height - MARGIN.top - MARGIN.bottom };
  const px = (x) => MARGIN.left + ((x - x0) / (x1 - x0)) * inner.w;
  const py = (y) => MARGIN.top + (1 - (y - ys[0]) / (ys[1] - ys[0])) * inner.h;

  const latest = lines.map((one) => one.points.at(-1)).filter(Boolean)
    .map(([, y]) => number(y));
  svg.append(element("title", {}, `${title}; last ${latest.join(", ") || "unknown"} ${unit}`.trim()));
  const yTicks = ticks(ys[0], ys[1], Math.max(Math.floor(inner.h / 34), 3));
  const step = yTicks.length > 1 ? yTicks[1] - yTicks[0] : 1;
  for (const y of yTicks) {
    const digits = Math.max(Math.ceil(Math.log10(Math.max(Math.abs(y), step) / step)) + 1, 2);
    svg.append(element("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: py(y), y2: py(y) }));
    svg.append(element("text", { x: MARGIN.left - 6, y: py(y) + 4, "text-anchor": "end" }, number(y, digits)));
  }
  const wanted = Math.max(Math.floor(inner.w / 90), 2);
  const xTicks = time ? timeTicks(x0, x1, wanted) : { found: ticks(x0, x1, wanted), step: 0 };
  for (const x of xTicks.found) {
    svg.append(element("line", { class: "axis", x1: px(x), x2: px(x), y1: height - MARGIN.bottom, y2: height - MARGIN.bottom + 4 }));
    const edge = px(x) > width - 34;
    svg.append(element("text", { x: edge ? width - 2 : px(x), y: height - MARGIN.bottom + 16, "text-anchor": edge ? "end" : "middle" },
      time ? timeText(x, xTicks.step) : number(x, 6)));
  }
  svg.append(element("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: height - MARGIN.bottom, y2: height - MARGIN.bottom }));
  svg.append(element("text", { x: MARGIN.left + inner.w / 2, y: height - 5, "text-anchor": "middle" }, xLabel));
  svg.append(element("text", { x: 4, y: 14 }, [yLabel, unit && `(${unit})`].filter(Boolean).join(" ")));
  if (shade.length > 1) {
    const up = shade.map(([x, , high]) => `${px(x)},${py(high)}`);
    const down = shade.map(([x, low]) => `${px(x)},${py(low)}`).reverse();
    const cut = element("clipPath", { id: `${svg.id || "chart"}-cut` });
    cut.append(element("rect", { x: MARGIN.left, y: MARGIN.top, width: inner.w, height: inner.h }));
    svg.append(cut, element("polygon", {
      class: "band", points: [...up, ...down].join(" "), "clip-path": `url(#${cut.id})`,
    }));
  } else if (shade.length === 1) {
    const [[x, low, high]] = shade;
    svg.append(element("line", { class: "line line-0", x1: px(x), x2: px(x), y1: py(low), y2: py(high) }));
  }
  lines.forEach((one, index) => {
    const kind = one.style ?? index % 6;
    const points = one.points.map(([x, y]) => `${px(x)},${py(y)}`);
    if (points.length > 1) svg.append(element("polyline", { class: `line line-${kind}`, points: points.join(" ") }));
    const end = one.points.at(-1);
    if (end) svg.append(element("circle", { class: `dot dot-${kind}`, cx: px(end[0]), cy: py(end[1]), r: 3.5 }));
  });
}

export function barMeter(svg, { parts, total, label = "" }) {
  svg.setAttribute("viewBox", "0 0 100 10");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.replaceChildren(element("title", {}, label));
  svg.append(element("rect", { class: "track", x: 0, y: 0, width: 100, height: 10 }));
  let at = 0;
  parts.forEach((part, index) => {
    const size = total > 0 && Number.isFinite(part.value) ? Math.min((100 * part.value) / total, 100 - at) : 0;
    if (size > 0) svg.append(element("rect", { class: `part-${part.style ?? index}`, x: at, y: 0, width: size, height: 10 }));
    at += Math.max(size, 0);
  });
}
