"""Seats played by language models."""
