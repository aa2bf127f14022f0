"""Games with a model server at fault: every way to misbehave, and what holds of every game all the same."""
