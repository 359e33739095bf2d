// Rényi curves of events, at order 1 + b for real b > 0, and at b = Infinity (pure DP).
"use strict";

const Events = (() => {
  const { abs, exp, expm1, floor, log, log1p, max, min, sign } = Math;
  const { divergenceFromLogMean, logAddExp, logMeanExcess, logMixtureRatio, logNdtr, logNdtrSteps, logRelativeExcess } =
    Numerics;

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

  /** Log of the integrand: standard normal density times phi_a(u)/b. */
  function logTerm(b, rate, mu, y) {
    const u = sampledRatio(rate, mu, y);
    if (u <= 40) return -0.5 * y * y - HALF_LOG_TWO_PI + logMeanExcess(b, u);
    // u = mu y - mu^2/2 + log g + ..., and -y^2/2 + mu y - mu^2/2 is a square
    const rest = log(rate) + log1p(((1 - rate) / rate) * exp(0.5 * mu * mu - mu * y));
    return -0.5 * (y - mu) ** 2 + rest - HALF_LOG_TWO_PI + logRelativeExcess(b, u);
  }

  /** d/dy log phi_a(u(y)): the integrand is stationary where this equals y. */
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

  /** log of h times the sum of the integrand over h Z, out from every place where it may peak. */
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

  /** The mean where the two components do not overlap: of (1-g)^a + g^a e^{a b mu^2/2} - 1. */
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
      // branch cuts stand above and below the crossing; a finer step where the integrand counts there
      const size = b < 0.25 ? 4 : log((2 + 2 * a) / b);
      const atCrossing = -0.5 * crossing ** 2 + max(0, a * log(2 * (1 - rate))) + size;
      if (atCrossing > total - 45) return trapezoid(b, rate, mu, step(halfWidth), low, high);
    }
    return total;
  }

  // --- noisy screening -----------------------------------------------------------------------------------

  const reversed = ([pass, fail, ratioPass, ratioFail]) => [pass + ratioPass, fail + ratioFail, -ratioPass, -ratioFail];

  /** log E_Q[phi_a/b] of a Bernoulli pair: logs of Q's probabilities, log-ratios P/Q. */
  const pairLogMean = (b, [pass, fail, ratioPass, ratioFail]) =>
    logAddExp(pass + logMeanExcess(b, ratioPass), fail + logMeanExcess(b, ratioFail));

  /** A function that computes every value once. */
  function remembered(f) {
    const known = new Map();
    return (x) => {
      let value = known.get(x);
      if (value === undefined) known.set(x, (value = f(x)));
      return value;
    };
  }

  /** The worst pair of neighbouring counts (Zhu et al. 2020, Thm 7, over all feasible counts), exactly under sampling. */
  function screening(sigma, threshold, lowest, highest, rate) {
    if (rate === 0) return () => 0;
    const rising = remembered((t) => {
      const x = (t - threshold) / sigma;
      return [logNdtr(x), logNdtr(-x), ...logNdtrSteps(x, 1 / sigma)];
    });
    const sampled = ([pass, fail, up, down]) => [pass, fail, logMixtureRatio(rate, up), logMixtureRatio(rate, down)];
    const blocks = [remembered((t) => sampled(rising(t))), remembered((t) => sampled(reversed(rising(t))))];
    // without sampling the two are each other's reverse
    if (rate < 1) blocks.push(...blocks.map((block) => remembered((t) => reversed(block(t)))));
    return (b) => {
      if (b === Infinity) {
        const ends = [lowest, highest - 1].flatMap((t) => rising(t).slice(2).map(abs));
        return logMixtureRatio(rate, max(...ends));
      }
      const worst = { seen: -Infinity, bound: -Infinity };
      for (const block of blocks) searchWorst(b, block, lowest, highest - 1, worst);
      return divergenceFromLogMean(b, max(worst.seen, worst.bound));
    };
  }

  /**
   * Raise `worst` to the largest log mean over the counts, by branch and bound: all four numbers are monotone in the
   * count (Phi is log-concave), so no pair exceeds the larger weights times the larger terms of two ends. A block that
   * could beat what was seen by less than the slack (rounding, or 5e-10 where flat maxima abound) counts by its bound.
   */
  function searchWorst(b, block, first, last, worst) {
    const slack = last - first < 1000 ? 1e-14 : 5e-10;
    const larger = (x, y) => (abs(x) > abs(y) ? x : y);
    const open = [[first, last]];
    while (open.length) {
      const [low, high] = open.pop();
      const [start, end] = [block(low), block(high)];
      const bound = pairLogMean(b, [
        max(start[0], end[0]), max(start[1], end[1]), larger(start[2], end[2]), larger(start[3], end[3]),
      ]);
      if (bound <= worst.seen + slack) {
        worst.bound = max(worst.bound, bound);
        continue;
      }
      const middle = floor((low + high) / 2);
      const looked = high - low < 4 ? Array.from({ length: high - low + 1 }, (_, i) => low + i) : [low, middle, high];
      for (const t of looked) worst.seen = max(worst.seen, pairLogMean(b, block(t)));
      if (high - low >= 4) open.push([low, middle], [middle, high]);
    }
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

  const laplace = (t, coordinates) => (b) => coordinates * laplaceDivergence(b, t);

  /** Mironov 2017, Prop. 5, of one bit. */
  function bitDivergence(b, epsilon) {
    if (b === Infinity || epsilon === 0) return epsilon;
    const likely = -log1p(exp(-epsilon));
    const logMean = logAddExp(likely - epsilon + logMeanExcess(b, epsilon), likely + logMeanExcess(b, -epsilon));
    return min(divergenceFromLogMean(b, logMean), epsilon);
  }

  /** Randomized response, which dominates every pure-DP release (Kairouz, Oh & Viswanath 2015, Thm 3.4). */
  function bits(epsilon, count, rate) {
    if (rate === 0) return () => 0;
    const own = (b) => count * bitDivergence(b, epsilon);
    if (rate === 1 || epsilon === 0) return own;
    // the number of true bits is binomial; sampled, each count is one outcome of a finite law
    const likely = -log1p(exp(-epsilon));
    const outcomes = [];
    for (let k = 0, choices = 1; k <= count; choices = (choices * (count - k)) / (k + 1), k++)
      outcomes.push({
        logQ: Math.log(choices) + count * likely - k * epsilon,
        ratio: logMixtureRatio(rate, (2 * k - count) * epsilon),
      });
    return (b) => {
      if (b === Infinity) return logMixtureRatio(rate, own(b));
      let [forward, backward] = [-Infinity, -Infinity];
      for (const { logQ, ratio } of outcomes) {
        forward = logAddExp(forward, logQ + logMeanExcess(b, ratio));
        backward = logAddExp(backward, logQ + ratio + logMeanExcess(b, -ratio));
      }
      return min(divergenceFromLogMean(b, max(forward, backward)), own(b));
    };
  }

  // --- releases of a plan ----------------------------------------------------------------------------------

  const CURVES = {
    gaussian: (p) => gaussian(p.sensitivity / p.sigma, p.sampling_rate),
    gnmax: (p) => gaussian(Math.SQRT2 / p.sigma, p.sampling_rate),
    "gaussian-dp": (p) => gaussian(p.mu, p.sampling_rate),
    "zero-concentrated-dp": (p) => (b) => (p.rho > 0 ? p.rho * (1 + b) : 0),
    "noisy-screening": (p) => screening(p.sigma, p.threshold, p.min_votes, p.max_votes, p.sampling_rate),
    laplace: (p) => laplace(p.sensitivity / p.scale, p.coordinates),
    lnmax: (p) => laplace(1 / p.scale, 2),
    "randomized-response": (p) => bits(p.epsilon, p.bits, p.sampling_rate),
    "pure-dp": (p) => bits(p.epsilon, 1, p.sampling_rate),
  };

  /** The curve of one release; of an event that is not computed here, from its table of the library's values. */
  function curveOf(release, values, orders) {
    if (!release.table) return remembered(CURVES[release.event](values));
    const table = new Map([...orders, Infinity].map((order, i) => [order - 1, release.table[i]]));
    return (b) => table.get(b) ?? Infinity;
  }

  return { curveOf };
})();
