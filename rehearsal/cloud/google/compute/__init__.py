"""Compute Engine: `/compute/v1/` and `/compute/beta/`."""
