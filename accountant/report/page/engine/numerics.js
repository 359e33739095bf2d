// Scalar functions of the engine: sums of non-negative terms, and logarithms where values underflow.
"use strict";

const Numerics = (() => {
  const { abs, exp, expm1, log, log1p } = Math;

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
   * log( phi_a(u)/b ) with a = 1 + b and phi_a(u) = expm1(a u) - a expm1(u) >= 0; b = 0 is the limit. Since
   * E_Q[P/Q] = 1, exp(b D_a(P||Q)) - 1 = E_Q[phi_a(log P/Q)]: a sum of non-negative terms.
   */
  function logMeanExcess(b, u) {
    if (u === 0) return -Infinity;
    // here u^2 would underflow
    if (abs(u) < 1e-140 && (1 + b) * abs(u) < 1e-20) return log(0.5 * (1 + b)) + 2 * log(abs(u));
    if (abs(u) < 0.5 && (1 + b) * abs(u) < 1) {
      const growth = expExcess(u);
      const lead = u * u + (u - 1) * growth;
      return log(b > 0 ? lead + ((1 + u + growth) * expExcess(b * u)) / b : lead);
    }
    if (u > 0) return u + logRelativeExcess(b, u);
    if (u < -745) return 0; // e^u underflows, and phi_a(u)/b rounds to 1
    return log(exp(u) * (b > 0 ? expm1(b * u) / b : u) - expm1(u));
  }

  /** The Rényi divergence log1p(b J)/b of order 1 + b, from log J where J = E_Q[phi_a(log P/Q)]/b. */
  function divergenceFromLogMean(b, logMean) {
    if (b === 0) return exp(logMean);
    const x = logMean + log(b);
    return x > 40 ? x / b : log1p(b * exp(logMean)) / b;
  }

  /** log(1 - rate + rate e^u): the log-ratio of the mixture (1 - rate) Q + rate P to Q where log P/Q = u. */
  function logMixtureRatio(rate, u) {
    if (rate === 1) return u;
    if (u > 600) return u + log(rate) + log1p(((1 - rate) / rate) * exp(-u));
    const change = rate * expm1(u);
    return change < -0.5 ? log(1 - rate + rate * exp(u)) : log1p(change);
  }

  return {
    divergenceFromLogMean, expExcess, logAddExp, logMeanExcess, logMixtureRatio, logRelativeExcess,
  };
})();
