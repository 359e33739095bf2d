// What the page's plots show for other values: the same lines as for the plan as written, by the page's own prices.
"use strict";

const LivePlots = (() => {
  const { plain, roundedUp } = Format;
  const { price, shares } = Prices;
  const POINTS = 16;
  const [NOW, BEFORE] = ["with these values", "the plan as written"];

  /** Divergences of a whole plan by order, at the orders of the tables or on a grid. */
  function curve(parts, orders, last) {
    const grid = orders ?? Array.from({ length: 81 }, (_, i) => 1 + 0.05 * ((last - 1) / 0.05) ** (i / 80));
    const cost = (b) => parts.reduce((sum, part) => sum + (part.count > 0 ? part.count * part.curve(b) : 0), 0);
    return grid.filter((order) => order >= 1.05 && order <= last).map((order) => [order, cost(order - 1)]);
  }

  /** Epsilon by the number of releases, in the plan's proportions, counts rounded up. */
  function growth(parts, delta, rule, orders) {
    const whole = parts.reduce((sum, part) => sum + part.count, 0);
    return Array.from({ length: POINTS }, (_, i) => Math.max(Math.ceil(whole * ((i + 1) / POINTS) ** 2), 1)).map((n) => {
      const some = parts.map((part) => ({ ...part, count: Math.ceil((part.count * n) / whole) }));
      return [n, price(some, delta, rule, orders).epsilon];
    });
  }

  /** Least type II error by type I error, from epsilons at many deltas (Dong, Roth & Su 2022, Prop. 6). */
  function tradeOff(parts, rule, orders) {
    const deltas = Array.from({ length: 24 }, (_, i) => 10 ** (-6 + (5.7 * i) / 23));
    const bounds = deltas.map((delta) => [price(parts, delta, rule, orders).epsilon, delta]);
    const least = (x) => Math.max(0, ...bounds.map(([epsilon, delta]) =>
      Math.max(1 - delta - Math.exp(epsilon) * x, Math.exp(-epsilon) * (1 - delta - x))));
    const grid = [0, ...Array.from({ length: 60 }, (_, i) => 10 ** (-4 + (4 * i) / 59))];
    return grid.map((x) => [x, x === 1 ? 0 : least(x)]);
  }

  /** The figures of the page that moved values change; `now` and `before`: { parts, delta, price }. */
  function redraw({ now, before, names, rule, orders }) {
    const quick = rule === "optimal" ? "improved" : rule; // the optimal rule takes long at many points
    const both = (make) => [{ label: NOW, points: make(now) }, { label: BEFORE, points: make(before) }];
    const at = `delta = ${roundedUp(now.delta)}`;
    const how = `Rényi, ${quick} conversion`;
    const epsilon = (one) => (one.price.epsilon === Infinity ? "no finite bound" : roundedUp(one.price.epsilon));
    const makers = {
      shares: () => {
        const parts = shares(now.parts, now.price.b).map((share, i) => ({ name: names[i], share }));
        const most = parts.reduce((one, other) => (other.share > one.share ? other : one));
        const title = `${most.name} takes ${(100 * most.share).toFixed(1)}% of the privacy cost`;
        return Draw.bars({ title, says: `${NOW}; Rényi epsilon ${epsilon(now)} at ${at}`, parts });
      },
      curves: () => {
        const last = 20 * Math.max(...[now, before].map(({ price: { b } }) => (b < 1e6 ? b : 1)), 2) + 1;
        const order = now.price.b === Infinity ? "its limit" : `order ${plain(1 + now.price.b, 4)}`;
        return Draw.chart({
          title: `The Rényi curve gives epsilon ${epsilon(now)} at ${order}`, says: `${NOW}; ${at}`,
          x: { label: "order", log: true }, y: { label: "Rényi divergence, at most (nats)", log: true },
          lines: both(({ parts }) => curve(parts, orders, last)),
        });
      },
      releases: () => Draw.chart({
        title: `Rényi bound: epsilon ${epsilon(now)}; ${BEFORE}: ${epsilon(before)}`, says: `${at}; ${how}, not tight`,
        x: { label: "releases", low: 0 }, y: { label: "epsilon, at most", low: 0 },
        lines: both(({ parts, delta }) => growth(parts, delta, quick, orders)),
      }),
      "trade-off": () => {
        const lines = both(({ parts }) => tradeOff(parts, quick, orders));
        return Draw.chart({
          title: "What every attacker misses, at least, by the Rényi bound", says: `${how}, not tight: no test errs less`,
          x: { label: "type I error", low: 0, high: 1 }, y: { label: "type II error, at least", low: 0, high: 1 }, lines,
        });
      },
    };
    for (const figure of document.querySelectorAll("figure[data-kind]")) {
      figure.querySelector(".live-plot")?.remove();
      const make = makers[figure.dataset.kind];
      figure.classList.toggle("replaced", Boolean(make));
      if (make) figure.prepend(make());
      else figure.classList.add("stale");
    }
  }

  /** Back to the plots of the plan as written. */
  function restore() {
    for (const figure of document.querySelectorAll("figure[data-kind]")) {
      figure.querySelector(".live-plot")?.remove();
      figure.classList.remove("replaced", "stale");
    }
  }

  return { redraw, restore };
})();
