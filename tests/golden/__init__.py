"""Golden playthroughs: whole games as text, kept to notice what changes unseen."""
