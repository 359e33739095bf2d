// Plots of other values than the plan's: small SVG charts that take the place of those drawn with the page.
"use strict";

const Draw = (() => {
  const sample = document.createElement("template");
  sample.innerHTML = "<svg></svg>";
  const SPACE = sample.content.firstChild.namespaceURI;
  const [WIDE, HIGH, LEFT, RIGHT, TOP] = [353, 262, 50, 12, 52];
  const LOOKS = [["var(--line-0)", "", 2.4], ["var(--faint)", "5 3", 1.4]];

  function node(tag, attributes, ...children) {
    const made = document.createElementNS(SPACE, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  /** Round numbers between two ends, about five of them; decades of a logarithmic axis. */
  function ticks(low, high, log) {
    if (log) {
      const first = Math.ceil(Math.log10(low) - 1e-9);
      const last = Math.floor(Math.log10(high) + 1e-9);
      const step = Math.max(1, Math.ceil((last - first) / 5));
      return Array.from({ length: Math.max(Math.floor((last - first) / step) + 1, 0) }, (_, i) => 10 ** (first + i * step));
    }
    const raw = (high - low) / 5;
    const unit = 10 ** Math.floor(Math.log10(raw));
    const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= raw);
    const count = Math.floor((high - low) / step + 1e-9);
    return Array.from({ length: count + 1 }, (_, i) => low + i * step);
  }

  const short = (x) => (Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 1e-3) ? Format.plain(x, 3)
                                                                             : Number(x.toPrecision(4)).toLocaleString("en"));

  function words(text, x, y, attributes = {}) {
    return node("text", { x, y, "font-size": 9.5, fill: "currentColor", ...attributes }, text);
  }

  /** Words in lines of at most so many characters. */
  function wrap(text, most) {
    const lines = [""];
    for (const word of text.split(" ")) {
      if (lines.at(-1) && lines.at(-1).length + word.length >= most) lines.push("");
      lines.push(`${lines.pop()} ${word}`.trim());
    }
    return lines;
  }

  function frame(title, says, high) {
    const svg = node("svg", {
      viewBox: `0 0 ${WIDE} ${high}`, class: "plot live-plot", style: `--wide: ${WIDE}`, role: "img",
      "aria-label": `${title}. ${says}`,
    });
    wrap(title, 46).forEach((line, i) => svg.append(words(line, 2, 13 + 14 * i, { "font-size": 12, "font-weight": 700 })));
    svg.append(words(says, 2, TOP - 10, { "font-size": 8, fill: "var(--faint)" }));
    return svg;
  }

  /**
   * Lines [{ label, points: [[x, y], ...] }], the first one strong; `x` and `y`: { label, log, low, high }. Points that
   * cannot be shown on their axes are left out.
   */
  function chart({ title, says, x, y, lines }) {
    const high = HIGH + 16 * lines.length;
    const svg = frame(title, says, high);
    const seen = lines.map((line) => line.points.filter(([a, b]) =>
      Number.isFinite(a) && Number.isFinite(b) && !(x.log && a <= 0) && !(y.log && b <= 0)));
    const ends = (axis, index) => {
      const all = seen.flat().map((point) => point[index]);
      const low = axis.low ?? Math.min(...all);
      return [low, Math.max(axis.high ?? Math.max(...all), low === 0 ? 1e-300 : low * 1.0001)];
    };
    const bottom = HIGH - 40;
    const place = (axis, [low, up], from, to) => (value) => {
      const part = axis.log ? Math.log(value / low) / Math.log(up / low) : (value - low) / (up - low);
      return from + part * (to - from);
    };
    const [xs, ys] = [ends(x, 0), ends(y, 1)];
    const [px, py] = [place(x, xs, LEFT, WIDE - RIGHT), place(y, ys, bottom, TOP)];
    for (const value of ticks(...ys, y.log)) {
      const at = py(value).toFixed(2);
      svg.append(node("line", { x1: LEFT, x2: WIDE - RIGHT, y1: at, y2: at, stroke: "var(--rule)", "stroke-width": 0.6 }));
      svg.append(words(short(value), LEFT - 5, Number(at) + 3, { "text-anchor": "end", fill: "var(--faint)" }));
    }
    for (const value of ticks(...xs, x.log)) {
      const at = px(value).toFixed(2);
      svg.append(node("line", { x1: at, x2: at, y1: TOP, y2: bottom, stroke: "var(--rule)", "stroke-width": 0.6 }));
      svg.append(words(short(value), at, bottom + 13, { "text-anchor": "middle", fill: "var(--faint)" }));
    }
    svg.append(node("path", { d: `M${LEFT} ${TOP}V${bottom}H${WIDE - RIGHT}`, fill: "none", stroke: "var(--faint)" }));
    svg.append(words(x.label, (LEFT + WIDE - RIGHT) / 2, bottom + 28, { "text-anchor": "middle" }));
    const middle = (TOP + bottom) / 2;
    svg.append(words(y.label, 10, middle, { "text-anchor": "middle", transform: `rotate(-90 10 ${middle})` }));
    lines.map((line, i) => [line, i]).reverse().forEach(([line, i]) => {
      const [stroke, dashes, width] = LOOKS[i];
      const look = { fill: "none", stroke, "stroke-width": width, "stroke-dasharray": dashes };
      const d = seen[i].map(([a, b], n) => `${n ? "L" : "M"}${px(a).toFixed(2)} ${py(b).toFixed(2)}`).join("");
      svg.append(node("path", { ...look, d, class: "line" }));
      const at = HIGH + 2 + 16 * i;
      svg.append(node("path", { ...look, d: `M${LEFT} ${at}h30` }), words(line.label, LEFT + 38, at + 3));
    });
    return svg;
  }

  /** Shares with a bar each, the largest first. */
  function bars({ title, says, parts }) {
    const svg = frame(title, says, TOP + 30 * parts.length + 6);
    [...parts].sort((one, other) => other.share - one.share).forEach(({ name, share }, i) => {
      const y = TOP + 10 + 30 * i;
      const width = 280 * share;
      svg.append(words(name.length > 50 ? `${name.slice(0, 49)}…` : name, 2, y));
      svg.append(node("rect", { x: 2, y: y + 4, width, height: 10, fill: "var(--line-0)", class: "bar" }));
      svg.append(words(`${(100 * share).toFixed(1)}%`, width + 7, y + 13));
    });
    return svg;
  }

  return { bars, chart };
})();
