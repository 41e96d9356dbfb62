"""Programs that run inside a machine, on its own Python: copied there, importing nothing of this project by its name here."""
