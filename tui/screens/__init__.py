"""Screens: they put panes together, read projections from the desk and the shelf, and act on what panes ask."""
