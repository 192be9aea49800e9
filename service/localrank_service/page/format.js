// Figures as texts.

/** Write a number with this many significant digits; a dash if there is none. */
export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-4)) return value.toExponential(digits - 1);
  const decimals = value === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(decimals, 6)).replace("-", "−");
}

/** Write a number that people chose or measured, without zeros at its end. */
export function plain(value, digits = 4) {
  return value === null || value === undefined || !Number.isFinite(value) ? "–" : String(Number(value.toPrecision(digits))).replace("-", "−");
}

/** Write a whole number with separators. */
export function count(value) {
  return value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en");
}

/** Write a share as a percentage. */
export function percent(share, digits = 1) {
  return share === null || share === undefined || !Number.isFinite(share) ? "–" : `${(100 * share).toFixed(digits)}\u00a0%`;
}

/** Write a difference with its sign. */
export function signed(value, digits = 3) {
  return value > 0 ? `+${number(value, digits)}` : number(value, digits);
}

/** Write milliseconds. */
export function milliseconds(value) {
  return value === null || value === undefined ? "–" : `${number(value, 3)} ms`;
}

/** Write how many there are of something. */
export function many(n, one, several = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : several}`;
}

/** Write a size of files. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const [unit, scale] = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]].find(([, one]) => value >= one) ?? ["B", 1];
  return `${scale === 1 ? value : number(value / scale, 3)}\u00a0${unit}`;
}
