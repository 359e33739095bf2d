// Rényi curves of the common families of events, at order 1 + b for real b > 0, and at b = Infinity (pure DP).
"use strict";

const Curves = (() => {
  const { abs, exp, expm1, floor, log, log1p, max, min, sign } = Math;
  const { divergenceFromLogMean, logAddExp, logMeanExcess, logMixtureRatio, logRelativeExcess } = Numerics;

  // --- Gaussian noise: N(mu, 1) against N(0, 1) --------------------------------------------------------

  const HALF_LOG_TWO_PI = 0.5 * log(2 * Math.PI);

  /** Bun & Steinke 2016, Lemma 2.5, or sampled: Mironov, Talwar & Zhang 2019, Thms 4 and 5. */
  function gaussian(mu, rate) {
    if (mu === 0 || rate === 0) return () => 0;
    return (b) => {
      const own = 0.5 * mu * mu * (1 + b);
      if (rate === 1 || b === Infinity) return own;
      return min(own, divergenceFromLogMean(b, sampledGaussianLogMean(b, mu, rate)));
    };
  }

  /** Log-ratio of the mixture to N(0, 1) at y. */
  const sampledRatio = (rate, mu, y) => logMixtureRatio(rate, mu * y - 0.5 * mu * mu);

  /** Log of the integrand: standard normal density times phi_a(u)/b, with phi_a as in numerics.js. */
  function logTerm(b, rate, mu, y) {
    const u = sampledRatio(rate, mu, y);
    if (u <= 40) return -0.5 * y * y - HALF_LOG_TWO_PI + logMeanExcess(b, u);
    // u = mu y - mu^2/2 + log g + ..., and -y^2/2 + mu y - mu^2/2 is a square
    const rest = log(rate) + log1p(((1 - rate) / rate) * exp(0.5 * mu * mu - mu * y));
    return -0.5 * (y - mu) ** 2 + rest - HALF_LOG_TWO_PI + logRelativeExcess(b, u);
  }

  /** d/dy log phi_a(u(y)): the integrand has a stationary point where this equals y. */
  function pull(b, rate, mu, y) {
    const u = sampledRatio(rate, mu, y);
    if (u === 0) return 0;
    const share = 1 - (1 - rate) * exp(-u);
    const t = b * u;
    let logSlope;
    if (abs(t) < 500) logSlope = u + log(abs(b > 0 ? expm1(t) / b : u) * (1 + b));
    else logSlope = u + max(t, 0) + log((1 + b) / b);
    return sign(u) * mu * share * exp(logSlope - logMeanExcess(b, u));
  }

  /** log of h times the sum of the integrand over the multiples of h, outwards from each place where it may peak. */
  function trapezoid(b, rate, mu, h, low, high) {
    let total = -Infinity;
    let covered = -Infinity;
    const patience = max(2, Math.ceil(1 / h));
    const walk = (k, step, stop) => {
      for (let quiet = 0; quiet < patience && k !== stop; k += step) {
        const term = logTerm(b, rate, mu, k * h);
        quiet = term < total - 42 ? quiet + 1 : 0;
        total = logAddExp(total, term);
      }
      return k;
    };
    for (const start of [0, low, high]) {
      const k = floor(start / h);
      if (k < covered) continue;
      walk(k - 1, -1, covered - 1);
      covered = walk(k, 1, Infinity);
    }
    return total + log(h);
  }

  /** Log of the mean over b where the components do not overlap: (1-g)^a + g^a e^{a b mu^2/2} - 1, g the rate. */
  function disjointLogMean(b, mu, rate) {
    const kept = log1p(-rate);
    const gained = log(rate) + 0.5 * (1 + b) * mu * mu;
    if (b * gained > 600) return log(rate) + b * gained - log(b);
    return log(((1 - rate) * expm1(b * kept) + rate * expm1(b * gained)) / b);
  }

  /** Where the integrand may peak to the right: between 2 mu (it grows as u^2) and a mu (as e^{a u}). */
  function peaks(b, mu, rate) {
    const top = (1 + b) * mu;
    if (b < 1) {
      let [bottom, above] = [top, 2 * mu];
      for (let i = 0; i < 60; i++) {
        const middle = 0.5 * (bottom + above);
        if (pull(b, rate, mu, middle) > middle) bottom = middle;
        else above = middle;
      }
      return [bottom, bottom];
    }
    let [low, high] = [2 * mu, top];
    for (let i = 0, before = -Infinity; i < 500 && low - before >= 1e-3; i++)
      [before, low] = [low, min(max(low, pull(b, rate, mu, low)), top)];
    for (let i = 0, before = Infinity; i < 500 && before - high >= 1e-3; i++)
      [before, high] = [high, max(min(high, pull(b, rate, mu, high)), low)];
    return [low, high];
  }

  /**
   * log E_{y~N(0,1)}[ phi_a(u(y)) ]/b by the trapezoidal rule on the whole line (Trefethen & Weideman 2014, Thm 5.1):
   * analytic in a strip of half-width D, a step of 2 pi D/(44 + D^2/2) leaves a relative error near e^-44.
   */
  function sampledGaussianLogMean(b, mu, rate) {
    const a = 1 + b;
    const upper = 0.5 * a * b * mu * mu + a * log(rate);
    const crossing = 0.5 * mu + log((1 - rate) / rate) / mu;
    const beyond = a * mu - crossing;
    const far = (y) => y > 12 && mu * (y - 12) > 40 + log(a);
    if (upper > 45 && far(beyond) && 0.5 * beyond ** 2 > 0.7 * a + 40) return upper - log(b);
    const nearest = min(crossing, beyond);
    if (far(nearest) && 0.5 * nearest ** 2 > 0.7 * a + 45 - log(rate)) return disjointLogMean(b, mu, rate);
    const [low, high] = peaks(b, mu, rate);
    const full = 8.976;
    const halfWidth = min(Math.PI / mu, full);
    const step = (width) => (2 * Math.PI * width) / (44 + 0.5 * width * width);
    const total = trapezoid(b, rate, mu, step(full), low, high);
    if (halfWidth < full) {
      // branch cuts end above and below the crossing: a smaller step if the integrand is not negligible there
      const size = b < 0.25 ? 4 : log((2 + 2 * a) / b);
      const atCrossing = -0.5 * crossing ** 2 + max(0, a * log(2 * (1 - rate))) + size;
      if (atCrossing > total - 45) return trapezoid(b, rate, mu, step(halfWidth), low, high);
    }
    return total;
  }

  // --- Laplace noise, randomized response ------------------------------------------------------------------

  /** Mironov 2017, Prop. 6, of one coordinate that moves by t scales. */
  function laplaceDivergence(b, t) {
    const a = 1 + b;
    if (b === Infinity) return t;
    if (b * t > 1) return t + log((a + b * exp(-(a + b) * t)) / (a + b)) / b;
    let mean;
    if (a * t < 1) {
      // (e^{b D} - 1)/(a b t^2) = sum c_n/n!,  c_2 = 1,  c_n = b t c_{n-1} + (-a t)^{n-2}
      let [c, power, factorial, total] = [1, 1, 2, 0.5];
      for (let n = 3; n < 40; n++) {
        power *= -a * t;
        c = b * t * c + power;
        factorial *= n;
        total += c / factorial;
      }
      mean = a * t * t * total;
    } else {
      mean = (a * (expm1(b * t) / b) + expm1(-a * t)) / (a + b);
    }
    return min(log1p(b * mean) / b, t);
  }

  /**
   * Randomized response of so many bits (Mironov 2017, Prop. 5), which dominates every pure-DP release (Kairouz, Oh &
   * Viswanath 2015, Thm 3.4). Sampled, each number of true bits is one outcome of a binomial distribution.
   */
  function pure(epsilon, rate, bits) {
    if (epsilon === 0 || rate === 0) return () => 0;
    if (bits > 1 && rate === 1) {
      const one = pure(epsilon, 1, 1);
      return (b) => bits * one(b);
    }
    const unsampled = rate < 1 ? pure(epsilon, 1, bits) : () => bits * epsilon;
    const likely = -log1p(exp(-epsilon));
    const outcomes = [];
    for (let k = 0, choices = 1; k <= bits; choices = (choices * (bits - k)) / (k + 1), k++)
      outcomes.push({
        logQ: log(choices) + bits * likely - k * epsilon,
        ratio: logMixtureRatio(rate, (2 * k - bits) * epsilon),
      });
    return (b) => {
      if (b === Infinity) return logMixtureRatio(rate, bits * epsilon);
      let [forward, backward] = [-Infinity, -Infinity];
      for (const { logQ, ratio } of outcomes) {
        forward = logAddExp(forward, logQ + logMeanExcess(b, ratio));
        backward = logAddExp(backward, logQ + ratio + logMeanExcess(b, -ratio));
      }
      return min(divergenceFromLogMean(b, max(forward, backward)), unsampled(b));
    };
  }

  // --- families ------------------------------------------------------------------------------------------

  /** Curves by family: of a strength, of which more costs more, at a sampling rate; of so many copies or bits. */
  const FAMILIES = {
    gaussian,
    concentrated: (rho) => (b) => (rho > 0 ? rho * (1 + b) : 0),
    laplace: (t, _, copies) => (b) => copies * laplaceDivergence(b, t),
    pure,
  };

  /** A function that computes every value once. */
  function remember(f) {
    const known = new Map();
    return (x) => {
      let value = known.get(x);
      if (value === undefined) known.set(x, (value = f(x)));
      return value;
    };
  }

  /** The curve of a release in standard form, at a value of its noise parameter. */
  function curveOf({ family, factor, inverse, copies }, noise, rate) {
    return remember(FAMILIES[family](inverse ? factor / noise : factor * noise, rate, copies));
  }

  return { curveOf };
})();
