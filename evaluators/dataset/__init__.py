"""Data sets: finished games as tables that any tool reads, with a card that says what every column means."""
