"""Doubles and drivers that tests share; nothing here is imported by the product."""
