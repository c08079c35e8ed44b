"""Every test of the project; a regular package so that no installed `tests` can take its place.
Imported by pytest and by `python -m tests.<command>`."""
