// Rényi curves that the library computed when the page was made: of every event that is not in a common family.
"use strict";

const Tables = (() => {
  /** 32-bit numbers from base64; the library rounded them up. */
  const decode = (text) => new Float32Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);

  /**
   * A function from the values of the moving parameters to a curve. There is a curve for every combination of the
   * parameters' `stops`, the last parameter moving fastest; other values, and orders that are not in the table, have
   * none: nothing is interpolated.
   */
  function read({ parameters, curves }, orders) {
    const numbers = decode(curves);
    return (values) => {
      const row = parameters.reduce((sum, { key, stops }) => {
        const place = stops.indexOf(values[key]);
        if (place < 0) throw new RangeError(`${key} = ${values[key]} is not in the table`);
        return sum * stops.length + place;
      }, 0);
      const width = orders.length + 1;
      const curve = numbers.subarray(row * width, (row + 1) * width);
      const found = new Map([...orders, Infinity].map((order, i) => [order - 1, curve[i]]));
      return (b) => found.get(b) ?? Infinity;
    };
  }

  return { read };
})();
