// The page: controls for a plan's numbers, and the price of their values.
"use strict";

(() => {
  const { plain, roundedUp } = Format;
  const { RULES, price, shares } = Prices;
  const CLOSE = 2e-7; // tables are rounded up by 6e-8; two searches may end 1e-7 apart if a curve has a kink
  const TINY = 1e-30; // tables have no smaller numbers
  const STEPS = 400;
  const WORDS = { classic: "Rényi, classic conversion", improved: "Rényi, improved conversion",
                  optimal: "Rényi, optimal conversion" };

  const byId = (id) => document.getElementById(id);
  const read = (value) => (typeof value === "string" ? Number(value.replace("inf", "Infinity")) : value);
  const data = JSON.parse(byId("plan").textContent);

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // --- controls ------------------------------------------------------------------------------------------

  /** The values at which a slider stops: those of the table; else numbers at equal ratios, and the plan's. */
  function stopsOf({ value, from, to, low, high, whole, stops }) {
    if (stops) return stops;
    const rounded = (x) => (whole ? Math.round(x) : Math.min(Math.max(Number(x.toPrecision(4)), low), high));
    const grid = Array.from({ length: STEPS + 1 }, (_, i) => rounded(from * (to / from) ** (i / STEPS)));
    return [...new Set([...grid, value, ...(whole ? [0] : [])])].sort((x, y) => x - y);
  }

  /** What is wrong with a number, or "". */
  function complaint(control, text) {
    const x = Number(text);
    if (control.stops) {
      const nearest = control.stops.reduce((best, stop) => (Math.abs(stop - x) < Math.abs(best - x) ? stop : best));
      if (text.trim() !== "" && control.stops.includes(x)) return "";
      return `${control.label} = ${text.trim() || "nothing"}; accepted: where the slider stops, such as ${nearest}`;
    }
    const zero = control.zero && control.low > 0 ? "0, or " : "";
    const kind = control.whole ? "a whole number in " : "";
    const accepted = `${zero}${kind}[${plain(control.low)}, ${plain(control.high)}]`;
    const inside = (x >= control.low && x <= control.high) || (control.zero && x === 0) || x === control.value;
    if (text.trim() !== "" && inside && (!control.whole || Number.isInteger(x))) return "";
    return `${control.label} = ${text.trim() || "nothing"}; accepted: ${accepted}`;
  }

  function addControl(parent, control, owner) {
    const places = stopsOf(control);
    const place = (x) => Math.max(places.findLastIndex((stop) => stop <= x), 0);
    const id = `${owner.id}-${control.key}`;
    const slider = element("input", {
      type: "range", id, min: 0, max: places.length - 1, step: 1, value: place(control.value),
    });
    const field = element("input", {
      type: "number", id: `${id}-number`, step: control.whole ? 1 : "any", value: control.value, inputmode: "decimal",
      "aria-label": `${control.label} of ${owner.name}, exactly`,
    });
    const error = element("p", { class: "error", id: `${id}-error`, role: "alert", hidden: "" });
    field.setAttribute("aria-describedby", error.id);
    const label = element("label", { for: id }, control.label);
    label.append(element("span", { class: "skip" }, ` of ${owner.name}`));
    parent.append(element("div", { class: "control" }, label, slider, field, error));
    const state = {
      value: control.value,
      valid: true,
      home: () => state.set(control.value),
      moved: () => !state.valid || state.value !== control.value,
      set: (x) => {
        Object.assign(state, { value: x, valid: true });
        field.value = String(x);
        slider.value = place(x);
        say();
      },
    };
    const say = (text = "") => {
      slider.setAttribute("aria-valuetext", plain(state.value));
      field.setAttribute("aria-invalid", String(text !== ""));
      error.textContent = text;
      error.hidden = text === "";
    };
    say();
    slider.addEventListener("input", () => {
      state.set(places[Number(slider.value)]);
      schedule();
    });
    field.addEventListener("input", () => {
      const wrong = complaint(control, field.value);
      state.valid = wrong === "";
      if (state.valid) {
        state.value = Number(field.value);
        slider.value = place(state.value);
      }
      say(wrong);
      schedule();
    });
    return state;
  }

  const form = byId("controls");
  const states = [];

  function addGroup(name, event, controls, id) {
    const group = element("fieldset", {}, element("legend", {}, name, event ? element("small", {}, event) : ""));
    const found = {};
    for (const control of controls) states.push((found[control.key] = addControl(group, control, { id, name })));
    form.append(group);
    return { group, found };
  }

  const releases = data.releases.map((release, number) => {
    const { group, found } = addGroup(release.name, release.event, release.controls, `release-${number}`);
    const moves = release.controls.length > 1 ? "its sliders stop where the tables have values" : "only its count moves";
    const why = `Its curves come from the library's tables: ${moves}.`;
    if (release.table) group.append(element("p", { class: "note" }, why));
    const share = element("span", { class: "n" });
    const bar = element("i");
    const drawn = element("span", { class: "share", "aria-hidden": "true" }, bar);
    group.append(element("p", { class: "spent" }, element("span", {}, "share of the cost: ", share), drawn));
    return { found, share, bar, curve: null, made: "", curveOf: Prices.curvesOf(release, data.orders) };
  });
  // at delta = 0 the price is the pure-DP limit, which has no delta to move
  const whole =
    data.delta.value > 0 ? addGroup("The whole plan", "", [data.delta], "plan-wide").found.delta : { value: 0 };

  // --- prices --------------------------------------------------------------------------------------------

  function parts() {
    return releases.map((each) => {
      const values = Object.fromEntries(Object.entries(each.found).map(([key, state]) => [key, state.value]));
      const { count, ...rest } = values;
      const made = JSON.stringify(rest);
      // make a new curve only if one of its own numbers moved
      if (each.made !== made) Object.assign(each, { made, curve: each.curveOf(rest) });
      return { count, curve: each.curve };
    });
  }

  /** Whether the page's prices of the plan as written are the library's; if not, it must show none of its own. */
  function agrees(found) {
    return RULES.every((rule) => {
      const [mine, theirs] = [found[rule].epsilon, read(data.epsilons[rule])];
      return mine === theirs || Math.abs(mine - theirs) <= CLOSE * theirs + TINY;
    });
  }

  const prices = (all) => Object.fromEntries(RULES.map((rule) => [rule, price(all, whole.value, rule, data.orders)]));

  /** Epsilon in words: an infinite one is no bound. */
  const shown = (epsilon) => (epsilon === Infinity ? "no finite bound" : roundedUp(epsilon));

  function show() {
    if (states.some((state) => !state.valid)) {
      present("–", "", "one of the numbers below is not accepted");
      for (const rule of RULES) byId(`live-${rule}`).textContent = "–";
      return;
    }
    const moved = states.some((state) => state.moved());
    const all = parts();
    const found = prices(all);
    // for the plan as written show the library's own numbers
    const epsilons = moved ? Object.fromEntries(RULES.map((rule) => [rule, found[rule].epsilon])) : data.epsilons;
    for (const rule of RULES) byId(`live-${rule}`).textContent = shown(read(epsilons[rule]));
    const { b, edge } = found[data.conversion];
    const order = b === Infinity ? "the pure-DP limit" : `order ${1 + b < 1.0001 ? `1 + ${plain(b)}` : plain(1 + b)}`;
    const words = `${WORDS[data.conversion]}, ${order}${edge ? ", at the edge of the searched orders" : ""}`;
    const epsilon = read(epsilons[data.conversion]);
    plotLater(moved, { parts: all, delta: whole.value, price: found[data.conversion] });
    present(shown(epsilon), String(epsilon), `${words} (${moved ? "with these values" : "the plan as written"})`);
    shares(all, b).forEach((share, number) => {
      releases[number].share.textContent = `${(100 * share).toFixed(1)}%`;
      releases[number].bar.style.setProperty("--part", share);
    });
  }

  const names = data.releases.map((release) => release.name);
  let written = null; // the plan as written, for comparison in plots
  let plotting = 0;

  /** Draw the plots anew, once the values have rested for a moment. */
  function plotLater(moved, now) {
    written ??= now;
    clearTimeout(plotting);
    if (!moved) return LivePlots.restore();
    const settings = { now, before: written, names, rule: data.conversion, orders: data.orders };
    plotting = setTimeout(() => LivePlots.redraw(settings), 60);
  }

  function present(text, exactly, words) {
    const moved = states.some((state) => state.moved());
    byId("epsilon").textContent = text;
    byId("epsilon").dataset.value = exactly;
    byId("delta-now").textContent = roundedUp(whole.value);
    byId("route").textContent = words;
    byId("reset").disabled = !moved;
    document.body.classList.toggle("unmoved", !moved);
    byId("live-tight").textContent = moved ? "not computed in the page" : byId("tight").textContent;
    byId("tight").closest("tr").classList.toggle("stale", moved);
  }

  function refuse(reason) {
    byId("live").remove();
    byId("follows").remove();
    LivePlots.restore();
    for (const cell of document.querySelectorAll(".live")) cell.remove();
    byId("broken").textContent = `${reason} Other values cannot be tried; all numbers shown are the library's.`;
    byId("broken").classList.add("alarm");
    byId("broken").hidden = false;
  }

  let waiting = false;
  function schedule() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      try {
        show();
      } catch (error) {
        refuse(`The page met a number that it cannot price (${error.message}).`);
      }
    });
  }

  try {
    if (!agrees(prices(parts()))) throw new RangeError("its prices are not the library's");
    for (const cell of document.querySelectorAll(".live")) cell.hidden = false;
    byId("live").hidden = false;
    byId("follows").hidden = false;
    byId("reset").addEventListener("click", () => {
      for (const state of states) state.home();
      schedule();
      byId("try-title").scrollIntoView({ block: "nearest" });
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    show();
  } catch (error) {
    refuse(`This browser does not compute as the library does (${error.message}).`);
  }
})();
