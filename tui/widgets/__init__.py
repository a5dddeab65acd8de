"""Widgets that know nothing of agents: lines, lists, a log, a composer, a card."""
