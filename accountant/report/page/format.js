// Numbers as the library prints them.
"use strict";

const Format = (() => {
  const DIGITS = 6;

  /** A non-negative number to six significant digits, rounded up, so that it stays an upper bound. */
  function roundedUp(value, digits = DIGITS) {
    if (value === 0 || !Number.isFinite(value)) return value === 0 ? "0" : String(value);
    let [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    let [units, power] = [Math.round(Number(mantissa) * 10 ** (digits - 1)), Number(exponent)];
    if (Number(`${mantissa}e${exponent}`) < value) units += 1;
    if (units === 10 ** digits) [units, power] = [units / 10, power + 1];
    return plain(Number(`${units}e${power - digits + 1}`), digits);
  }

  /** A number as C's %g writes it. */
  function plain(value, digits = DIGITS) {
    if (value === 0 || !Number.isFinite(value)) return String(value);
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    const power = Number(exponent);
    const short = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
    if (power >= -4 && power < digits) return short(value.toFixed(Math.max(digits - 1 - power, 0)));
    return `${short(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }

  return { plain, roundedUp };
})();
