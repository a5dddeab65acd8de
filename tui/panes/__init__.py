"""Panes of a screen: each shows one projection and gets data, never the app."""
