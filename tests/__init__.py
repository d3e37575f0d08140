"""Tests; a package, because one of the packages that they compare with installs another `tests`."""
