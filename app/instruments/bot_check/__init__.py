"""Acts a server that does to one bot whatever can happen to it, and says what the bot gets wrong."""
