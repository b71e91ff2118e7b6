// Tables of all montages and all subjects.

function fillTable(table, caption, heads, rows) {
  const [, ...said] = heads;
  // with roles it remains a table to screen readers, also where it is laid out as a list
  const body = rows.map(([first, ...cells]) =>
    make(
      "tr",
      { role: "row" },
      make("th", { scope: "row", role: "rowheader" }, first),
      ...cells.map((cell, i) => make("td", { role: "cell", "data-head": said[i] }, cell)),
    ),
  );
  const top = heads.map((head) => make("th", { scope: "col", role: "columnheader" }, head));
  set(table, { role: "table" });
  table.replaceChildren(
    make("caption", { class: "unseen" }, caption),
    make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...top)),
    make("tbody", { role: "rowgroup" }, ...body),
  );
  stackWhereTooWide(table);
}

/** If the columns do not fit side by side, each row is shown as a list of column names and values. */
function stackWhereTooWide(table) {
  const holder = table.parentElement;
  onWidth(holder, () => {
    table.classList.remove("stacked");
    table.classList.toggle("stacked", holder.scrollWidth > holder.clientWidth);
  });
}

const addedText = (drop) => (drop ? `${drop.sensor}: ${gainText(drop)}` : DASH);

/** Returns a function that marks the row of the montage shown. */
function makeMontageTable({ montages, recommended, sensors }, mark, intervalText) {
  const priced = sensors.some((sensor) => sensor.cost !== 1);
  const number = (n) =>
    n === recommended.n_sensors ? make("span", {}, `${n} `, make("small", {}, mark)) : String(n);
  const price = (text) => (priced ? [text] : []);
  const rows = montages.map((m) => [
    ...[number(m.n_sensors), aucText(m.auc), intervalText(m), addedText(m.drop)],
    ...[...price(plain(m.cost)), m.sensors.join(", ")],
  ]);
  const names = "Names, in order of importance";
  const heads = ["Electrodes", "AUC", "95 % interval", "Added electrode, AUC gain", ...price("Cost"), names];
  const table = byId("montage-table");
  fillTable(table, "Montages by number of electrodes", heads, rows);
  const rowOf = new Map(montages.map((m, i) => [m.n_sensors, table.tBodies[0].rows[i]]));
  rowOf.get(recommended.n_sensors).classList.add("recommended");
  return ({ n_sensors }) => {
    for (const [n, row] of rowOf) set(row, { "aria-current": n === n_sensors ? "true" : null });
  };
}

const SHOWN_REPETITIONS = [1, 2, 3, 5, 10, 15, 20, 30];

/** Letters by number of electrodes (each doubling, the chosen number and all) and repetitions. */
function fillLetters({ letters, recommended }) {
  byId("letters").hidden = !letters;
  if (!letters) return;
  const { n_sensors: sizes, right, n_characters: total } = letters;
  const last = right[0].length;
  const repetitions = [...SHOWN_REPETITIONS.filter((r) => r < last), last];
  const shown = sizes.filter((n, i) => Number.isInteger(Math.log2(n)) || i === sizes.length - 1 || n === recommended.n_sensors);
  const rows = shown.map((n) => [String(n), ...repetitions.map((r) => percent(right[sizes.indexOf(n)][r - 1]))]);
  const heads = repetitions.map((r) => `${r}\u00d7`);
  fillTable(byId("letters-table"), "Letters spelled right", ["Electrodes", ...heads], rows);
  byId("letters-text").textContent =
    `${count(total, "held-out letter")}; the scores of the flashes are added up over the repetitions.`;
}

function fillSubjects(rows) {
  byId("subjects").hidden = !rows?.length;
  if (!rows?.length) return;
  const gain = (row) => (row.auc === null || row.common_auc === null ? DASH : changeText(row.auc - row.common_auc));
  fillTable(
    byId("subject-table"),
    "Montages by subject",
    [
      ...["Subject", "AUC, common montage", "AUC, own montage", "Difference", "AUC as new subject"],
      ...["Own electrodes", "Names"],
    ],
    rows.map((row) => [
      row.caution ? make("span", {}, row.subject, make("small", {}, row.caution)) : row.subject,
      ...[aucText(row.common_auc), aucText(row.auc), gain(row), aucText(row.new_subject_auc)],
      ...[String(row.n_sensors), row.sensors.join(", ")],
    ]),
  );
}
