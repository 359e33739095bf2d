"""Documentation: notebooks, tutorials and the reference, executed and built by `make docs`; no network is needed."""

from importlib.metadata import version as installed

project = "knn-accountant"
author = "the knn-accountant authors"
version = release = installed("knn-accountant")

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_nb"]
exclude_patterns = ["conf.py", "README.md"]
default_role = "py:obj"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autosummary_generate = False
numpydoc_show_class_members = False

nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
# never from a cache, which would not notice that the library has changed
nb_execution_mode = "force"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_output_stderr = "error"
nb_merge_streams = True
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]

html_theme = "furo"
html_title = "knn-accountant"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5394", "color-brand-content": "#0b5394"},
    "dark_css_variables": {"color-brand-primary": "#8ab4f8", "color-brand-content": "#8ab4f8"},
}
