"""The files that ``study new`` writes."""

from typing import Final

__all__ = ["EXAMPLE", "MODELS_EXAMPLE"]

EXAMPLE: Final = """\
# A study: what is played, how often, what is asked of the games, and what it may cost.
# Every field stands in docs/study.md; `interintent study schema` prints them for editors.

title = "Does self-correction help?"
about = "The preset paper thinks twice before it speaks, direct speaks at once."

# --- Who plays -------------------------------------------------------------------------------------
# Each model is an endpoint of models.toml beside this file (or of INTERINTENT_MODELS_FILE).

[models.small]
# model = "some-model-2026-01"      # checked against the endpoint; cells are then identified by it
# options = { temperature = 0.8 }   # any option of a seat

[models.large]

# --- The table -------------------------------------------------------------------------------------

[table]
profile = "interintent"             # or "official"
players = 5
# One model for all seats, a list with one for each seat, or by side or role:
# seats = { loyal = "small", evil = "large" }
seats = ["small", "large", "small", "large", "small"]
# rules = { discussion = "none" }

# --- How many games, and who sits where ------------------------------------------------------------

[design]
games = 4                           # of each cell; more games later reuse the first
seed = 1                            # all cells play the same deals, so games are compared in pairs
seating = "mirrored"                # each deal once for each model; or "rotated", "fixed"

# --- What differs ----------------------------------------------------------------------------------
# Crossed: every combination is a cell. Before a dot stands whose seats a factor changes, as in
# "evil.preset". Or list the cells, each with all factors: [[cells]] preset = "paper"

[conditions]
preset = ["paper", "direct"]
# memory = ["summaries", "speeches"]

# --- What it may cost ------------------------------------------------------------------------------

[budget]
max_cost = 20.0                     # in the currency of the endpoints' prices
parallel = 8                        # games at the same time

[exclusions]
defaults_above = 0.05               # games whose models failed more of their decisions do not count

# --- Who judges ------------------------------------------------------------------------------------

# [[evaluations]]
# kind = "judge"                    # a model judges whether selections are reasonable
# dimension = "selection"           # or "following", or "statements": what speeches state about the record
# model = "large"

# [[evaluations]]
# kind = "guesser"                  # a model guesses intentions from speeches
# dimension = "guessing"            # or "summarisation"
# model = "large"

# [[evaluations]]
# kind = "raters"                   # people's judgements, in a file beside this one
# file = "judgements.csv"

# --- What is asked ---------------------------------------------------------------------------------

[[questions]]
text = "Does Merlin survive more often with self-correction?"
contrast = "preset=paper,direct"
where = "role=merlin"
# measure = "seats won, loyal"      # the figure that decides; left out: all are compared
"""

MODELS_EXAMPLE: Final = """\
# Endpoints of this study, a table each (docs/providers.md). These two ask the fake model, which
# `interintent fake-model --port 8099 --brain sensible` serves without a key and without cost.

[small]
base_url = "http://127.0.0.1:8099/v1"
model = "fake-small"
prices = { prompt = 0.15, cached = 0.08, completion = 0.6 }   # of a million tokens

[large]
base_url = "http://127.0.0.1:8099/v1"
model = "fake-large"
prices = { prompt = 2.5, cached = 1.25, completion = 10 }
"""
