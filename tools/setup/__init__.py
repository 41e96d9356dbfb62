"""Makes a fresh machine ready: `python3 -m tools.setup`.

Standard library only, Python 3.11: it runs before the virtual environment exists.
"""
