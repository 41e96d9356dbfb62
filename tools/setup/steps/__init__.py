"""One module a step (or two that belong together); `tools.setup.table` puts them in order."""
