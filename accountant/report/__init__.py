"""One page on a plan, with table, plots, assumptions, and sliders that recompute."""
