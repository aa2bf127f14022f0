"""Golden playthroughs: whole games as text, so that no change goes unnoticed."""
