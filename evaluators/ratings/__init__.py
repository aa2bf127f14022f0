"""Ratings of players (bots and models) from all their games together."""
