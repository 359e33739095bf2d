// Scalar functions with no privacy in them: sums of non-negative terms, and logarithms where values underflow.
"use strict";

const Numerics = (() => {
  const { abs, exp, expm1, log, log1p, max, sqrt, PI } = Math;

  /** log(e^x + e^y), also for infinities. */
  function logAddExp(x, y) {
    if (x < y) [x, y] = [y, x];
    return y === -Infinity || x === Infinity ? x : x + log1p(exp(y - x));
  }

  /** e^z - 1 - z >= 0 to full relative accuracy. */
  function expExcess(z) {
    if (abs(z) > 0.4) return exp(z) - 1 - z;
    let term = 0.5 * z * z;
    let total = term;
    for (let n = 3; n < 20 && term !== 0; n++) {
      term *= z / n;
      total += term;
    }
    return total;
  }

  /** logMeanExcess(b, u) - u, for u > 0 that is not small. */
  function logRelativeExcess(b, u) {
    const t = b * u;
    if (t < 500) return log((b > 0 ? expm1(t) / b : u) + expm1(-u));
    return t - log(b) + log1p((b * expm1(-u) - 1) * exp(-t));
  }

  /**
   * log( phi_a(u)/b ), a = 1 + b, phi_a(u) = expm1(a u) - a expm1(u) >= 0; b = 0 is the limit. Where E_Q[P/Q] = 1,
   * exp(b D_a(P||Q)) - 1 = E_Q[phi_a(log P/Q)], a sum of non-negative terms.
   */
  function logMeanExcess(b, u) {
    if (u === 0) return -Infinity;
    // where u^2 would underflow
    if (abs(u) < 1e-140 && (1 + b) * abs(u) < 1e-20) return log(0.5 * (1 + b)) + 2 * log(abs(u));
    if (abs(u) < 0.5 && (1 + b) * abs(u) < 1) {
      const growth = expExcess(u);
      const lead = u * u + (u - 1) * growth;
      return log(b > 0 ? lead + ((1 + u + growth) * expExcess(b * u)) / b : lead);
    }
    if (u > 0) return u + logRelativeExcess(b, u);
    if (u < -745) return 0; // e^u underflows: phi_a(u)/b rounds to 1
    return log(exp(u) * (b > 0 ? expm1(b * u) / b : u) - expm1(u));
  }

  /** The Rényi divergence of order 1 + b, log1p(b J)/b, from log J. */
  function divergenceFromLogMean(b, logMean) {
    if (b === 0) return exp(logMean);
    const x = logMean + log(b);
    return x > 40 ? x / b : log1p(b * exp(logMean)) / b;
  }

  /** log(1 - rate + rate e^u): log-ratio of the mixture (1-rate) Q + rate P to Q where log P/Q = u. */
  function logMixtureRatio(rate, u) {
    if (rate === 1) return u;
    if (u > 600) return u + log(rate) + log1p(((1 - rate) / rate) * exp(-u));
    const change = rate * expm1(u);
    return change < -0.5 ? log(1 - rate + rate * exp(u)) : log1p(change);
  }

  /**
   * e^(x^2) erfc(x). From 1/2 on by the trapezoidal rule of step h on (x/pi) e^(-t^2)/(x^2 + t^2), which errs by
   * e^-(pi/h)^2 once the pole at t = ix is accounted for (Chiarella & Reichel 1968).
   */
  function erfcx(x) {
    if (x < 0) return 2 * exp(x * x) - erfcx(-x);
    const square = x * x;
    if (x < 0.5) {
      // erf(x) = 2x/sqrt(pi) e^(-x^2) sum (2x^2)^n / (1 3 5 ... (2n+1))
      let term = (2 * x) / sqrt(PI);
      let total = term;
      for (let n = 1; term > 1e-18 * total; n++) {
        term *= (2 * square) / (2 * n + 1);
        total += term;
      }
      return exp(square) - total;
    }
    const h = 0.5;
    let sum = 0.5 / square;
    for (let n = 13; n > 0; n--) sum += exp(-n * n * h * h) / (square + n * n * h * h);
    const pole = x < PI / h ? (2 * exp(square)) / -expm1((2 * PI * x) / h) : 0;
    return ((2 * h * x) / PI) * sum + pole;
  }

  /** log Phi(x). */
  function logNdtr(x) {
    const mills = 0.5 * erfcx(abs(x) / Math.SQRT2);
    return x < 0 ? log(mills) - 0.5 * x * x : log1p(-mills * exp(-0.5 * x * x));
  }

  /** Phi(x)/phi(x). */
  const millsRatio = (x) => sqrt(PI / 2) * erfcx(-x / Math.SQRT2);

  /** Nodes and weights of the n-point Gauss-Legendre rule on [0, 1], by Newton's method. */
  function gaussLegendre(n) {
    return Array.from({ length: n }, (_, i) => {
      let x = Math.cos((PI * (i + 0.75)) / (n + 0.5));
      let slope = 0;
      for (let step = 0; step < 8; step++) {
        let [before, here] = [1, x];
        for (let k = 2; k <= n; k++) [before, here] = [here, ((2 * k - 1) * x * here - (k - 1) * before) / k];
        slope = (n * (x * here - before)) / (x * x - 1);
        x -= here / slope;
      }
      return { at: (1 + x) / 2, weight: 1 / ((1 - x * x) * slope * slope) };
    });
  }

  const FEW = gaussLegendre(6);
  const MANY = gaussLegendre(16);

  /**
   * log Phi(x+h)/Phi(x) and log Phi(-x-h)/Phi(-x) for h > 0. On the side where Phi is not near 1 the first is the
   * integral of the hazard phi/Phi, and the other follows without cancellation.
   */
  function logNdtrSteps(x, h) {
    const mirrored = x + h / 2 > 0;
    const left = mirrored ? -x - h : x;
    let up = 0;
    let down;
    if (h > 8) {
      // deep in the tail the squares' difference is a product
      const deep = left + h < 0;
      const scaled = (x) => log(erfcx(-x / Math.SQRT2));
      up = deep ? scaled(left + h) - scaled(left) - h * (left + h / 2) : logNdtr(left + h) - logNdtr(left);
      down = logNdtr(-left - h) - logNdtr(-left);
    } else {
      const panels = max(1, Math.ceil(h));
      const width = h / panels;
      for (let i = 0; i < panels; i++)
        for (const node of h <= 0.1 ? FEW : MANY)
          up += (node.weight * width) / millsRatio(left + width * (i + node.at));
      const gained = exp(logNdtr(left) + up - logNdtr(-left)) * -expm1(-up);
      down = gained < 0.5 ? log1p(-gained) : logNdtr(-left - h) - logNdtr(-left);
    }
    return mirrored ? [-down, -up] : [up, down];
  }

  const DIGITS = 6;

  /** `value` to six significant digits, rounded away from zero so that it stays an upper bound. */
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
    if (power >= -4 && power < digits) return short(value.toFixed(max(digits - 1 - power, 0)));
    return `${short(mantissa)}e${power < 0 ? "-" : "+"}${String(abs(power)).padStart(2, "0")}`;
  }

  return {
    divergenceFromLogMean, erfcx, expExcess, logAddExp, logMeanExcess, logMixtureRatio, logNdtr, logNdtrSteps,
    logRelativeExcess, plain, roundedUp,
  };
})();
