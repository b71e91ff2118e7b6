// Numbers as text. An AUC is a fraction with three digits and no leading zero: .903

const DASH = "–";

function aucText(value, digits = 3) {
  return value === null || value === undefined ? DASH : value.toFixed(digits).replace(/^0(?=\.)/, "");
}

/** [.88, .92]; three digits if an interval is too narrow for two. */
function makeIntervalText(montages) {
  const digits = montages.some(({ low, high }) => low !== null && high !== null && high - low < 0.02) ? 3 : 2;
  return ({ low, high }) =>
    low === null || high === null ? "" : `[${aucText(low, digits)}, ${aucText(high, digits)}]`;
}

/** +.004, −.012, .000; with a standard error +.004 ± .003 */
function changeText(change, error = null) {
  if (change === null || change === undefined) return DASH;
  const sign = Math.abs(change) < 0.0005 ? "" : change < 0 ? "−" : "+";
  return sign + aucText(Math.abs(change)) + (error === null ? "" : ` ± ${aucText(error)}`);
}

/** The gain of the electrode that was added last, as the opposite of the change without it. */
const gainText = ({ auc_change: change, standard_error: error }) => changeText(change === null ? null : -change, error);

const percent = (share) => `${Math.round(100 * share)} %`;

const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** "a, b, c and 5 more" */
function firstFew(names) {
  return names.length > 4 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");
}

const norm = (trace) => Math.hypot(...trace);

/** Three significant digits, with an exponent only for very small and very large numbers. */
function plain(value) {
  const usual = value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e4);
  return (usual ? String(Number(value.toPrecision(3))) : value.toExponential(1)).replace("-", "−");
}

/** A step of 1, 2 or 5 times a power of ten that cuts `span` into about `pieces` parts. */
function niceStep(span, pieces) {
  const raw = span / pieces;
  const power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
}

/** The multiples of `step` in [low, high], without rounding errors. */
function multiples(low, high, step) {
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}
