// The page that asks: sends what is filled in, shows what it would buy, then the answer.
//
// The token stands behind the # of the address, and goes into a header of every request. A question can
// be asked once its price was shown; whatever changes in the form afterwards takes that back.

const token = location.hash.slice(1);
const byId = (id) => document.getElementById(id);
const form = byId("form");

async function post(path, sent) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-veilsum-token": token },
    body: JSON.stringify(sent),
  });
  const type = response.headers.get("content-type") || "";
  if (!type.startsWith("application/json")) throw new Error(await response.text());
  const found = await response.json();
  if (found.error) throw new Error(found.error);
  return found;
}

function fill(list, values) {
  byId(list).replaceChildren(...values.map((value) => new Option(value, value)));
}

function chosen() {
  return form.querySelector(`.question[data-question="${form.elements.question.value}"]`);
}

function words(option) {
  const box = option.querySelector("input[type=checkbox]");
  if (box) return box.checked ? [[]] : null;
  if ("repeats" in option.dataset) {
    const lines = option.querySelector("textarea").value.split("\n").map((line) => line.trim());
    const rows = lines.filter(Boolean).map((line) => line.split(/\s+/));
    return rows.length ? rows : null;
  }
  const row = [...option.querySelectorAll("input")].map((input) => input.value.trim());
  return row.some(Boolean) ? [row] : null;
}

function filled() {
  const sent = {};
  for (const field of form.querySelectorAll("[name]")) {
    sent[field.name] = field.type === "checkbox" ? field.checked : field.value;
  }
  const question = chosen();
  const more = question.querySelector("[data-more]");
  sent.columns = [...question.querySelectorAll("[data-column]")].map((input) => input.value);
  if (more) sent.columns.push(...more.value.split(","));
  sent.options = {};
  for (const option of question.querySelectorAll("[data-option]")) {
    const found = words(option);
    if (found) sent.options[option.dataset.option] = found;
  }
  return sent;
}

function say(text) {
  byId("state").textContent = text;
}

function complain(problem) {
  const place = byId("error");
  place.textContent = problem ? problem.message : "";
  place.hidden = !problem;
}

function show(place, html) {
  const element = byId(place);
  element.innerHTML = html; // escaped by the server's templates; the policy of the page runs no script
  element.hidden = false;
  element.focus();
}

function unsettled() {
  byId("ask").disabled = true;
  byId("bought").hidden = true;
}

async function working(text, work) {
  complain(null);
  say(text);
  byId("plan").disabled = true;
  byId("ask").disabled = true;
  try {
    await work();
  } catch (problem) {
    complain(problem);
  }
  say("");
  byId("plan").disabled = false;
}

function require() {
  for (const input of form.querySelectorAll("[data-required]")) {
    input.required = chosen().contains(input);
  }
}

form.elements.question.addEventListener("change", () => {
  for (const part of form.querySelectorAll(".question")) part.hidden = part !== chosen();
  require();
});

form.elements.table.addEventListener("change", async () => {
  complain(null);
  fill("columns", []);
  try {
    const found = await post("/columns", { table: form.elements.table.value });
    fill("columns", found.columns);
    byId("about-table").textContent = `Columns: ${found.columns.join(", ")}`;
  } catch (problem) {
    complain(problem);
  }
});

form.addEventListener("input", unsettled);

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const sent = filled();
  working("Counting rows ...", async () => {
    byId("answer").hidden = true;
    const found = await post("/plan", sent);
    show("bought", found.html);
    const note = document.createElement("p");
    note.textContent = found.note;
    byId("bought").append(note);
    byId("ask").textContent = `Ask, for epsilon ${sent.epsilon}`;
  }).then(() => {
    byId("ask").disabled = byId("bought").hidden;
  });
});

byId("ask").addEventListener("click", () => {
  working("Reading the table ...", async () => {
    const found = await post("/ask", filled());
    byId("bought").hidden = true;
    show("answer", found.html);
  });
});

require();
working("", async () => {
  if (!token) throw new Error("Open this page by the address that veilsum ask printed, with what follows the #.");
  const found = await post("/tables", {});
  fill("tables", found.tables);
});
