// The same as text: every montage, every subject.

function fillTable(table, caption, heads, rows) {
  table.replaceChildren(
    make("caption", { class: "unseen" }, caption),
    make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...rows.map(([first, ...cells]) => make("tr", {}, make("th", { scope: "row" }, first), ...cells.map((cell) => make("td", {}, cell))))),
  );
}

function dropText(drop) {
  return drop ? `${drop.sensor}: ${changeText(drop.auc_change)}` : DASH;
}

/** Returns a function that marks the row of the montage shown. */
function makeMontageTable(selection, intervalText) {
  const priced = selection.sensors.some((sensor) => sensor.cost !== 1);
  const best = selection.recommended.n_sensors;
  const heads = ["Electrodes", "AUC", "95 % interval", "Next to drop", ...(priced ? ["Price"] : []), "Names, in order of importance"];
  const rows = selection.montages.map((m) => [
    m.n_sensors === best ? make("span", {}, `${m.n_sensors} `, make("small", {}, "recommended")) : String(m.n_sensors),
    aucText(m.auc), intervalText(m), dropText(m.drop), ...(priced ? [plain(m.cost)] : []), m.sensors.join(", "),
  ]);
  const table = byId("montage-table");
  fillTable(table, "Montages by number of electrodes", heads, rows);
  const trs = new Map(selection.montages.map((m, i) => [m.n_sensors, table.tBodies[0].rows[i]]));
  trs.get(best).classList.add("recommended");
  return ({ n_sensors }) => {
    for (const [n, row] of trs) set(row, { "aria-current": n === n_sensors ? "true" : null });
  };
}

function fillSubjects(rows) {
  byId("subjects").hidden = !rows?.length;
  if (!rows?.length) return;
  const gain = (row) => (row.auc === null || row.common_auc === null ? DASH : changeText(row.auc - row.common_auc));
  fillTable(byId("subject-table"), "Montages by subject",
    ["Subject", "AUC, common montage", "AUC, own montage", "Own against common", "Own electrodes", "Names"],
    rows.map((row) => [row.subject, aucText(row.common_auc), aucText(row.auc), gain(row), String(row.n_sensors), row.sensors.join(", ")]));
}
