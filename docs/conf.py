"""Sphinx: the site over these pages. `make site` builds it; warnings are errors.

Nothing is fetched, here or by a reader's browser: no CDN, no web fonts, no inventory of others.
What the repository has elsewhere (examples/, CHANGELOG.md, docstrings) becomes pages by
`site_pages`, in folders that git ignores.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS.parent / "src")]

from docs import site_api, site_pages  # noqa: E402
from veilsum import __version__  # noqa: E402

project = "veilsum"
author = "The veilsum developers"
copyright = author
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
]
exclude_patterns = ["_build", "schema"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types of others; site_api resolves our own
suppress_warnings = ["config.cache"]  # nitpick_ignore_regex and setup are not pickled

# Markdown as GitHub has it: anchors of headings by their words, tables, bare fences.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "off"  # tests run the notebooks; the site shows their stored outputs
myst_links_external_new_tab = False

smartquotes = False  # --fleet and "ring:21" are typed as they stand
default_role = "py:obj"  # `name` in a docstring: a link where there is such a name, else code
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_attr_annotations = False
napoleon_custom_sections = [("Attributes", "params_style")]
add_module_names = False
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = "veilsum"
html_static_path = ["_static"]
html_css_files = ["veilsum.css"]
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # excerpts are fetched, which a page from the disk may not do
html_theme_options: dict[str, Any] = {"navigation_with_keys": False}
pygments_style = "friendly"
pygments_dark_style = "monokai"


def setup(app: Any) -> None:
    """Make the pages that come from elsewhere, and read docstrings as they are written."""
    app.connect("builder-inited", lambda app: site_pages.write(Path(app.srcdir)))
    app.connect("source-read", site_pages.adapt)
    app.connect("autodoc-process-docstring", site_api.escape, priority=400)
    app.connect("doctree-read", site_api.unlink_words)
    app.connect("missing-reference", site_api.resolve)
