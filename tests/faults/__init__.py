"""Games with a faulty model server: every fault, and what must be true of every game in spite of it."""
