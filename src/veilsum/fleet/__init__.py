"""A fleet of sites that share a board in any folder or bucket: `docs/fleet.md`."""
