"""Where a site's data are: one file per source, which registers itself by its name."""

from veilsum.fleet.sources.base import SOURCES, DataSource, open_source

__all__ = ["SOURCES", "DataSource", "open_source"]
