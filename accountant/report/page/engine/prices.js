// From Rényi curves to epsilon: theorems at one order, and a search over real orders; every order gives a valid bound.
"use strict";

const Prices = (() => {
  const { abs, exp, expm1, log, log1p, max, min } = Math;
  const { divergenceFromLogMean, logAddExp, logMeanExcess } = Numerics;

  const RULES = ["classic", "improved", "optimal"];
  const GOLDEN = (Math.sqrt(5) - 1) / 2;

  /** Mironov 2017, Prop. 3. */
  const classic = (b, renyi, logDelta) => max(renyi - logDelta / b, 0);

  /** Canonne, Kamath & Steinke 2020, Prop. 12. */
  const improved = (b, renyi, logDelta) => max(renyi - log1p(1 / b) - (logDelta + log1p(b)) / b, 0);

  /** D_a(Bernoulli(p) || Bernoulli(q)) where p - e^eps q = delta and p = delta + (1 - delta)/(1 + e^-z). */
  function bernoulliGap(b, epsilon, logDelta, z) {
    const delta = exp(logDelta);
    const logRest = log1p(-delta);
    const logShare = logRest - logAddExp(0, -z);
    const logQ = logShare - epsilon;
    const up = epsilon + logAddExp(0, logDelta - logShare);
    const q = exp(logQ);
    const kept = -expm1(logQ);
    const gained = epsilon < 1 ? q * expm1(epsilon) : exp(logShare) - q;
    const lost = (delta + gained) / kept;
    const logKept = log(kept);
    const down = lost < 0.5 ? log1p(-lost) : logRest - logAddExp(0, z) - logKept;
    return divergenceFromLogMean(b, logAddExp(logQ + logMeanExcess(b, up), logKept + logMeanExcess(b, down)));
  }

  /** Golden-section search: the least value seen until `enough(low, high)` of the bracket. */
  function least(f, low, high, enough) {
    let [left, right] = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)];
    let [atLeft, atRight] = [f(left), f(right)];
    while (!enough(low, high)) {
      if (atLeft < atRight) {
        [high, right, atRight] = [right, left, atLeft];
        left = high - GOLDEN * (high - low);
        atLeft = f(left);
      } else {
        [low, left, atLeft] = [left, right, atRight];
        right = low + GOLDEN * (high - low);
        atRight = f(right);
      }
    }
    return min(atLeft, atRight);
  }

  /** Least D_a of two-point distributions whose hockey-stick divergence at epsilon is delta (Asoodeh et al. 2021, Thm 2). */
  function smallestGap(b, epsilon, logDelta) {
    const low = logDelta + min(log(b), 0) - 8;
    return least((z) => bernoulliGap(b, epsilon, logDelta, z), low, 45, (x, y) => y - x <= 1e-9 * (1 + abs(x)));
  }

  /**
   * The smallest epsilon that a bound at one order implies, by bisection that keeps its upper end. If it is above
   * `enough`, the result may be larger.
   */
  function optimal(b, renyi, logDelta, enough) {
    let high = improved(b, renyi, logDelta);
    if (b > 1e8 || high === 0 || !(high < Infinity)) return high;
    if (high > enough && smallestGap(b, enough, logDelta) < renyi) return high;
    if (smallestGap(b, 0, logDelta) >= renyi) return 0;
    let low = 0;
    while (high - low > 1e-13 * high) {
      const middle = 0.5 * (low + high);
      if (smallestGap(b, middle, logDelta) >= renyi) high = middle;
      else low = middle;
    }
    return high;
  }

  const CONVERT = { classic, improved, optimal };
  const LOW = log(1e-9);
  const HIGH = log(1e12);
  const STEP = log(10) / 4;

  /**
   * Least `objective(b, enough)` over real b: from order 2 outwards on a logarithmic grid until it rises, then inside
   * the bracket. In the first part values above `enough` may be larger than they are.
   */
  function bestOrder(objective) {
    let best = { b: 1, x: 0, value: Infinity };
    let walking = true;
    const at = (x) => {
      const b = 1 + exp(x) - 1; // the distance from 1 of the order as it is rounded
      const value = objective(b, walking ? best.value : Infinity);
      if (value < best.value || (value === best.value && abs(x) < abs(best.x))) best = { b, x, value };
      return value;
    };
    for (const [direction, edge] of [[1, HIGH], [-1, LOW]]) {
      let previous = Infinity;
      for (let start = 0; abs(start) < abs(edge); start += direction * STEP * 8) {
        let lowest = Infinity;
        for (let i = 0; i < 8; i++)
          lowest = min(lowest, at(min(max(start + direction * STEP * i, LOW), HIGH)));
        if (lowest >= previous && previous < Infinity) break;
        previous = min(previous, lowest);
      }
    }
    at(LOW);
    at(HIGH);
    walking = false;
    if (best.value < Infinity)
      least(at, max(best.x - STEP, LOW), min(best.x + STEP, HIGH), (low, high) => high - low <= 1e-8);
    return { ...best, edge: best.x <= LOW + 1e-6 || best.x >= HIGH - 1e-6 };
  }

  /** Least `objective` over the orders of the tables. */
  function bestOfTable(objective, orders) {
    let best = { b: 1, value: Infinity, edge: false };
    orders.forEach((order, i) => {
      const value = objective(order - 1, best.value);
      if (value < best.value) best = { b: order - 1, value, edge: i === 0 || i === orders.length - 1 };
    });
    return best;
  }

  /**
   * Epsilon at delta of curves with counts, by one rule. `orders`: those of the tables, or null for all real orders.
   * Infinity if there is no guarantee; throws if something is not a number.
   */
  function price(parts, delta, rule, orders = null) {
    const spent = parts.filter((part) => part.count > 0);
    const total = (b) => spent.reduce((sum, part) => sum + part.count * part.curve(b), 0);
    const pure = total(Infinity);
    if (Number.isNaN(pure)) throw new RangeError("the pure-DP limit is not a number");
    if (delta === 0 || pure === 0) return { epsilon: pure, b: Infinity, edge: false };
    const logDelta = log(delta);
    const search = (convert) => {
      const objective = (b, enough) => {
        const value = convert(b, total(b), logDelta, enough);
        if (Number.isNaN(value)) throw new RangeError(`epsilon is not a number at order ${1 + b}`);
        return value;
      };
      return orders ? bestOfTable(objective, orders) : bestOrder(objective);
    };
    let best = search(CONVERT[rule]);
    if (rule === "optimal") {
      const other = search(improved);
      if (other.value < best.value) best = other;
    }
    if (pure <= best.value) return { epsilon: pure, b: Infinity, edge: false };
    return { epsilon: best.value, b: best.b, edge: best.edge };
  }

  /** Each part's share of the whole curve at order 1 + b; at order 2 if that is infinite; else infinite parts share. */
  function shares(parts, b) {
    const costs = (at) => parts.map((part) => (part.count > 0 ? part.count * part.curve(at) : 0));
    let found = costs(b);
    if (!found.every(Number.isFinite)) found = costs(1);
    if (!found.every(Number.isFinite)) found = found.map((cost) => (cost === Infinity ? 1 : 0));
    const total = found.reduce((sum, cost) => sum + cost, 0);
    return found.map((cost) => (total > 0 ? cost / total : 0));
  }

  /** A function from the values of a release's moving parameters to its curve, computed or from its table. */
  function curvesOf({ form, table, rate }, orders) {
    if (table) return Tables.read(table, orders);
    return (values) => Curves.curveOf(form, values[form.noise], values.sampling_rate ?? rate);
  }

  return { RULES, curvesOf, price, shares };
})();
