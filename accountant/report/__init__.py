"""Reports: a page about a plan with tables, plots, assumptions, and sliders for other values."""
