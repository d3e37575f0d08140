// The events of a page: connects, reconnects, and says in #connection how that goes.
//
//   connect((kind, data) => ...)   "snapshot" first and after every gap, then the page's events
//
// The body has the class "stale" while nothing arrives, so that old values do not look new.

const SILENT = 25000; // milliseconds without a word, a beat included, after which it is not there
const LONGEST = 10000; // milliseconds between two attempts

export function connect(onEvent, kinds = []) {
  let source = null;
  let heard = 0;
  let failures = 0;
  let timer = 0;

  function show(state, text) {
    const place = document.getElementById("connection");
    if (place && place.textContent !== text) place.textContent = text;
    if (place) place.dataset.state = state;
    document.body.classList.toggle("stale", state === "bad" || state === "warn");
  }

  function received(kind, event) {
    heard = Date.now();
    failures = 0;
    show("good", "connected");
    const data = JSON.parse(event.data);
    if (kind === "end") {
      show("bad", "this page is no longer served");
      again();
      return;
    }
    onEvent(kind, data);
  }

  function again() {
    if (source) source.close();
    source = null;
    failures += 1;
    clearTimeout(timer);
    timer = setTimeout(open, Math.min(500 * 2 ** Math.min(failures, 5), LONGEST));
  }

  function open() {
    heard = Date.now();
    source = new EventSource("/events");
    for (const kind of ["snapshot", "beat", "end", ...kinds]) {
      source.addEventListener(kind, (event) => received(kind, event));
    }
    source.onerror = () => {
      if (failures > 2) show("bad", "the server of this page does not answer");
      else show("warn", "reconnecting");
      again();
    };
  }

  setInterval(() => {
    if (source && Date.now() - heard > SILENT) {
      show("bad", "the server of this page does not answer");
      again();
    }
  }, 1000);
  addEventListener("pagehide", () => {
    if (source) source.close();
    source = null;
    clearTimeout(timer);
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) open();
  });
  open();
}

// Sets the text of an element by its id, only if it changed: readers of screens hear changes alone.
export function say(id, text) {
  const place = document.getElementById(id);
  const said = String(text);
  if (place && place.textContent !== said) place.textContent = said;
  return place;
}

// The same with a state: "good", "warn", "bad", or nothing.
export function state(id, text, kind) {
  const place = say(id, text);
  if (place) place.dataset.state = kind || "";
  return place;
}
