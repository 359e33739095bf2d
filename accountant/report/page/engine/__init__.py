"""The page's accounting engine: it prices a plan for other values of its numbers, in JavaScript, in a reader's browser.

It holds only what sliders need. Everything else that a page says is computed by the library when the page is made.

`numerics.js`
    Six scalar functions; as `accountant.numerics.special`.
`curves.js`
    Rényi curves of the families of `accountant.events.curve.StandardForm`: Gaussian noise (sampled or not), zCDP,
    Laplace noise, and randomized response, which stands for pure DP (sampled or not).
`tables.js`
    Curves of all other events, from tables by `accountant.report.tables`. Nothing is interpolated: sliders stop only at
    values in the table, and only orders in the table are searched. A table is rounded up.
`prices.js`
    The three conversions to epsilon, and the search for the best order; as `accountant.renyi`.

An epsilon of the page is never below the library's but for the rounding of double precision: every order gives a valid
bound, tables are rounded up, and the page refuses to price at all if it does not find the library's prices of the plan
as written. `tests/accountant/report/test_script.py` runs the engine in Node.js and compares curves and prices with the
library's, for random plans, extreme values and tables with moved sliders; `test_page.py` moves the sliders
in a browser.
"""
