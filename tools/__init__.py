"""What a fresh machine needs before the project can run: the set-up and the module files of what is built here."""
