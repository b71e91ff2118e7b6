// AUC against number of electrodes: our curve with its interval, everyone else's, and where the reader is.

const CURVE = { left: 38, right: 14, top: 12, bottom: 40 };

function makeCurve(selection, choose) {
  const counts = selection.montages.map((montage) => montage.n_sensors);
  let plot = null;
  let shown = null;
  const svgHolder = byId("curve");
  set(svgHolder, {
    tabindex: 0, role: "slider", "aria-label": "Number of electrodes, on the curve of AUC",
    "aria-valuemin": counts[0], "aria-valuemax": counts.at(-1),
  });
  onWidth(svgHolder, (width) => {
    plot = drawCurve(selection, counts, width);
    svgHolder.replaceChildren(plot.svg);
    if (shown) show(shown);
  });
  const values = makeCurveKey(selection.curves);

  const chooseAt = (event) => {
    const box = plot.svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * plot.width;
    choose(counts.reduce((best, n) => (Math.abs(plot.x(n) - at) < Math.abs(plot.x(best) - at) ? n : best)));
  };
  svgHolder.addEventListener("pointerdown", chooseAt);
  svgHolder.addEventListener("pointermove", (event) => event.buttons && chooseAt(event));
  svgHolder.addEventListener("keydown", (event) => {
    const at = counts.indexOf(shown.n_sensors);
    const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, PageDown: at - 5, PageUp: at + 5, Home: 0, End: counts.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(counts[Math.max(0, Math.min(counts.length - 1, to))]);
  });

  function show(montage) {
    shown = montage;
    const x = plot.x(montage.n_sensors);
    set(plot.here, { x1: x, x2: x });
    set(plot.dot, { cx: x, cy: plot.y(montage.auc) });
    values.forEach((value, i) => (value.textContent = scoreText(selection.curves[i], montage.n_sensors)));
    set(svgHolder, { "aria-valuenow": montage.n_sensors, "aria-valuetext": `${count(montage.n_sensors, "electrode")}, AUC ${aucText(montage.auc)}` });
  }
  return { show };
}

/** What a method reaches with `n` electrodes; one that knows a single number says which. */
function scoreText(curve, n) {
  const index = curve.n_sensors.indexOf(n);
  if (index < 0 && curve.n_sensors.length === 1) return `${aucText(curve.auc[0])} with ${curve.n_sensors[0]}`;
  return aucText(index < 0 ? null : curve.auc[index]);
}

function drawCurve(selection, counts, width) {
  const { left, right, top, bottom } = CURVE;
  const height = width > 500 ? 370 : 270;
  const svg = canvas(width, height, { "aria-hidden": "true" });
  const all = [...counts, ...selection.curves.flatMap((curve) => curve.n_sensors)];
  const fewest = Math.min(...all);
  const most = Math.max(...all);
  // the first few electrodes matter most: with many, each doubling gets the same room
  const x = (most > 16 ? logarithmic : linear)(fewest, most, left + 8, width - right - 8);
  const [low, high] = aucRange(selection.curves);
  const y = linear(low, high, height - bottom, top);
  const ticks = most > 16 ? counts.filter((n) => Number.isInteger(Math.log2(n)) || (n === most && Math.log2(n / 2 ** Math.floor(Math.log2(n))) > 0.4)) : counts;
  const here = draw("line", { class: "here", y1: top - 8, y2: height - bottom });
  const dot = draw("circle", { class: "here-dot", r: 6.5 });
  svg.append(
    valueAxis(multiples(low, high, niceStep(high - low, 6)), y, left, width - right, (v) => aucText(v, 2)),
    baseAxis(ticks, x, height - bottom, String),
    label((left + width - right) / 2, height - 6, most > 16 ? "electrodes (log scale)" : "electrodes", { "text-anchor": "middle", class: "axis-name" }),
    draw("path", { class: "recommended-mark", d: "M0 0 6 9H-6Z", transform: `translate(${x(selection.recommended.n_sensors)} ${height - bottom - 9})` }),
    here,
  );
  // ours last, on top of the others
  selection.curves.forEach((curve, i) => svg.insertBefore(drawMethod(curve, i, x, y, ticks), here));
  svg.append(svg.querySelector(".method-0"), dot);
  return { svg, width, x, y, here, dot };
}

function aucRange(curves) {
  const values = curves.flatMap((curve) => [curve.auc, curve.low ?? [], curve.high ?? []]).flat().filter((v) => v !== null);
  const step = 0.05;
  const low = Math.floor(Math.min(...values) / step + 1e-9) * step;
  const high = Math.ceil(Math.max(...values) / step - 1e-9) * step;
  return [low, Math.max(high, low + 2 * step)];
}

function drawMethod(curve, index, x, y, ticks) {
  const group = draw("g", { class: `method method-${index}` });
  const points = curve.n_sensors.map((n, i) => ({ n, auc: curve.auc[i], low: curve.low?.[i] ?? null, high: curve.high?.[i] ?? null })).filter((p) => p.auc !== null);
  const banded = points.filter((p) => p.low !== null && p.high !== null);
  if (index === 0 && banded.length > 1) {
    const edge = [...banded.map((p) => [x(p.n), y(p.high)]), ...banded.reverse().map((p) => [x(p.n), y(p.low)])];
    group.append(draw("polygon", { class: "band", points: edge.map((p) => p.map((v) => v.toFixed(1)).join(",")).join(" ") }));
  }
  if (points.length > 1) group.append(line(points.map((p) => [x(p.n), y(p.auc)]), { "stroke-dasharray": styleOf(index).dash }));
  const marked = points.length <= 16 ? points : points.filter((p) => ticks.includes(p.n));
  group.append(...marked.map((p) => markerAt(x(p.n), y(p.auc), index)));
  return group;
}

/** The key; it also says what each method reaches with as many electrodes. Returns the places of these values. */
function makeCurveKey(curves) {
  const values = curves.map(() => make("span", { class: "value" }));
  byId("curve-key").replaceChildren(...curves.map((curve, i) => {
    const sample = draw("svg", { viewBox: "0 0 34 14", width: 34, height: 14, "aria-hidden": "true" });
    const group = draw("g", { class: `method method-${i}` });
    if (curve.n_sensors.length > 1) group.append(line([[1, 7], [33, 7]], { "stroke-dasharray": styleOf(i).dash }));
    group.append(markerAt(17, 7, i));
    sample.append(group);
    return make("li", {}, sample, `${curve.method} `, values[i]);
  }), make("li", {}, draw("svg", { viewBox: "-8 -2 16 14", width: 16, height: 14, "aria-hidden": "true" }, draw("path", { class: "recommended-mark", d: "M0 0 6 9H-6Z" })), "recommended"));
  return values;
}
