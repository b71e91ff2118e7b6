// The regularisation path: how many electrodes are selected at each strength of the penalty.

const PATH = { height: 160, left: 38, right: 14, top: 10, bottom: 40 };

/** Returns a function that marks where the path first has as many electrodes as the montage shown. */
function makePath(path) {
  byId("path").hidden = !path;
  if (!path) return () => {};
  let at = 0;
  let plot = null;
  const mark = () => {
    const there = at >= 0 && { cx: plot.x(path.alphas[at]), cy: plot.y(path.n_selected[at]) };
    set(plot.dot, { visibility: there ? null : "hidden", ...there });
  };
  onWidth(byId("path-plot"), (width) => {
    plot = drawPath(path, width);
    byId("path-plot").replaceChildren(plot.svg);
    mark();
  });
  return ({ n_sensors: n }) => {
    at = path.n_selected.findIndex((selected) => selected >= n);
    byId("path-text").textContent = pathText(path, at, n);
    mark();
  };
}

function pathText(path, at, n) {
  if (at < 0) {
    return `The path ends at alpha = ${plain(path.alphas.at(-1))} with ${count(path.n_selected.at(-1), "electrode")}.`;
  }
  const there = `${path.n_selected[at]} selected, AUC ${aucText(path.auc?.[at])}`;
  const alpha = plain(path.alphas[at]);
  return `As the penalty decreases, ${n} or more electrodes are first selected at alpha = ${alpha} (${there}).`;
}

function drawPath(path, width) {
  const { height, left, right, top, bottom } = PATH;
  const [first, last] = [path.alphas[0], path.alphas.at(-1)];
  const most = Math.max(1, ...path.n_selected);
  const svg = canvas(width, height, { role: "img", "aria-label": "Number of selected electrodes along the path of alphas" });
  const x = logarithmic(first, last, left, width - right);
  const y = linear(0, most, height - bottom, top);
  const powers = multiples(Math.log10(last), Math.log10(first), 1).map((power) => 10 ** power);
  const steps = path.alphas.flatMap((alpha, i) => [
    [x(alpha), y(path.n_selected[Math.max(0, i - 1)])],
    [x(alpha), y(path.n_selected[i])],
  ]);
  const dot = draw("circle", { class: "here-dot", r: 6 });
  svg.append(
    valueAxis(multiples(0, most, Math.max(1, niceStep(most, 4))), y, left, width - right, String),
    baseAxis(powers.length ? powers : [first], x, height - bottom, plain, "alpha, strength of the penalty"),
    line(steps, { class: "trace weight" }),
    dot,
  );
  return { svg, dot, x, y };
}
