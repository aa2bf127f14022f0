"""Agents: scripts, language models, bots and people."""
