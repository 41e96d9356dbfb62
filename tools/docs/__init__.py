"""Reference pages that are generated from the code's own data. `python -m tools.docs` writes them; a test keeps them current."""
