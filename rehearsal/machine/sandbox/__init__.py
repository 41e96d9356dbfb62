"""A sandbox in place of a machine, where none can be booted: the same script and network stand-ins, stand-in commands."""
